// The JSON form of a packet: its field tree (wire/packet_fields.h) as one object. Groups become objects,
// numbers of 64 bits strings "0x…". Keys and their meaning: rrdma-decode(1).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "wire/packet_field.h"

namespace rrdma::tools {

// The children of `group` become members of `object`.
void add_fields(nlohmann::ordered_json& object, const wire::Field& group);

// One line, without a newline; text that is no UTF-8 is replaced, never a reason to fail.
[[nodiscard]] std::string json_line(const nlohmann::ordered_json& object);

}  // namespace rrdma::tools
