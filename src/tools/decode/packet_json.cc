#include "tools/decode/packet_json.h"

#include <nlohmann/json.hpp>

namespace rrdma::tools {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const wire::Field& field) {
  if (const bool* flag = std::get_if<bool>(&field.value)) return *flag;
  if (const auto* number = std::get_if<std::uint32_t>(&field.value)) return *number;
  if (const auto* text = std::get_if<std::string>(&field.value)) return *text;
  Json object = Json::object();
  add_fields(object, field);
  return object;
}

}  // namespace

void add_fields(Json& object, const wire::Field& group) {
  for (const wire::Field& field : group.children) object[std::string(field.key)] = json_of(field);
}

std::string json_line(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rrdma::tools
