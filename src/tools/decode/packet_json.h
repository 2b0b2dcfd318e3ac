// The JSON form of a packet: its field tree (dissection/packet_fields.h) as one object. Groups become
// objects, 64-bit numbers become strings "0x…". rrdma-decode(1) documents the keys.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "dissection/packet_field.h"

namespace rrdma::tools {

// Adds the children of `group` as members of `object`.
void add_fields(nlohmann::ordered_json& object, const wire::Field& group);

// One line without a newline. Replaces invalid UTF-8; never fails.
[[nodiscard]] std::string json_line(const nlohmann::ordered_json& object);

}  // namespace rrdma::tools
