#include "lab/link_shape.h"

#include <charconv>

#include "base/format.h"
#include "base/result_try.h"
#include "link/fault_spec.h"

namespace rrdma::tools {
namespace {

constexpr Duration kDelayMax = seconds(60);
constexpr std::uint32_t kPacketsMax = 65535;
constexpr std::uint32_t kMtuMin = 1280;  // required by IPv6, which every node has
constexpr std::uint32_t kMtuMax = 65535;

Result<std::uint32_t, std::string> number_between(std::string_view name, std::string_view text,
                                                  std::uint32_t least, std::uint32_t most) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
    return value;
  return Failure{formatted("'{}' is no {}: write a number from {} to {}.", text, name, least, most)};
}

template <typename Value, typename To>
Result<void, std::string> keep(Result<Value, std::string> parsed, To& to) {
  RRDMA_TRY(parsed);
  to = *parsed;
  return {};
}

}  // namespace

Result<void, std::string> set_property(LinkShape& shape, std::string_view name, std::string_view text) {
  if (name == "rate") return keep(link::parse_rate(text), shape.rate_kbps);
  if (name == "loss") return keep(link::parse_chance(name, text), shape.loss_ppm);
  if (name == "queue") return keep(number_between("queue", text, 1, kPacketsMax), shape.queue);
  if (name == "mtu") return keep(number_between("mtu", text, kMtuMin, kMtuMax), shape.mtu);
  if (name == "delay") {
    auto kept = keep(link::parse_duration(text), shape.delay);
    if (kept && shape.delay > kDelayMax)
      return Failure{formatted("'{}' is too long a delay: a minute is the most.", text)};
    return kept;
  }
  if (name == "ecn") {
    if (text != "true" && text != "false")
      return Failure{formatted("'{}' is no value for 'ecn': write true or false.", text)};
    shape.ecn = text == "true";
    return {};
  }
  return Failure{
      formatted("'{}' is no property of a link: known are {}.", name, joined(kShapeProperties, ", "))};
}

Result<void, std::string> check_shape(const LinkShape& shape) {
  if (!shape.ecn || shape.loss_ppm != 0) return {};
  return Failure{
      std::string("'ecn' marks packets in the place of losing them: say how many with 'loss', such as 1%.")};
}

std::string describe(const LinkShape& shape) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  if (shape.rate_kbps != 0) add(link::emit_rate(shape.rate_kbps));
  if (shape.delay.ns != 0) add(link::emit_duration(shape.delay));
  if (shape.loss_ppm != 0) add((shape.ecn ? "ecn " : "loss ") + link::emit_chance(shape.loss_ppm));
  if (shape.queue != 0) add(formatted("queue {}", shape.queue));
  if (shape.mtu != 0) add(formatted("mtu {}", shape.mtu));
  return text;
}

}  // namespace rrdma::tools
