#include "link/fault_spec.h"
#include "base/result_try.h"

#include <array>
#include <charconv>
#include <optional>

namespace rrdma::link {
namespace {

// "12.5" with `scale` = 1000 is 12500; empty if it is not a decimal number, too fine for the scale, or too
// large.
std::optional<std::uint64_t> scaled_decimal(std::string_view text, std::uint64_t scale) {
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 62;
  std::uint64_t value = 0;
  bool digits = false;
  bool fraction = false;
  for (const char c : text) {
    if (c == '.') {
      if (fraction) return std::nullopt;
      fraction = true;
      continue;
    }
    if (c < '0' || c > '9') return std::nullopt;
    digits = true;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (fraction) {
      if (scale % 10 != 0) return std::nullopt;
      scale /= 10;
      value += digit * scale;
    } else {
      if (value > (kLargest - digit * scale) / 10) return std::nullopt;
      value = value * 10 + digit * scale;
    }
  }
  if (!digits) return std::nullopt;
  return value;
}

struct Unit {
  std::string_view name;
  std::uint64_t scale;
};
constexpr std::array kTimeUnits = {Unit{"ns", 1}, Unit{"us", 1'000}, Unit{"µs", 1'000}, Unit{"ms", 1'000'000},
                                   Unit{"s", 1'000'000'000}};
constexpr std::array kRateUnits = {Unit{"k", 1}, Unit{"m", 1'000}, Unit{"g", 1'000'000},
                                   Unit{"t", 1'000'000'000}};
constexpr std::array kChanceUnits = {Unit{"ppm", 1}, Unit{"%", 10'000}};

template <std::size_t N>
std::optional<std::uint64_t> with_unit(std::string_view text, const std::array<Unit, N>& units) {
  for (const Unit& unit : units) {
    if (text.ends_with(unit.name))
      return scaled_decimal(text.substr(0, text.size() - unit.name.size()), unit.scale);
  }
  return std::nullopt;
}

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

Result<void, std::string> parse_delay(std::string_view text, FaultSpec& spec) {
  std::string_view middle = text;
  std::string_view spread;
  for (const std::string_view sign : {std::string_view("±"), std::string_view("+-")}) {
    if (const auto at = text.find(sign); at != std::string_view::npos) {
      middle = text.substr(0, at);
      spread = text.substr(at + sign.size());
    }
  }
  auto delay = parse_duration(middle);
  RRDMA_TRY(delay);
  spec.delay = *delay;
  spec.delay_spread = {};
  if (middle.size() == text.size()) return {};
  auto parsed = parse_duration(spread);
  RRDMA_TRY(parsed);
  if (*parsed > *delay)
    return Failure{"the spread in " + quoted(text) +
                   " is larger than the delay: no packet can arrive before it was sent."};
  spec.delay_spread = *parsed;
  return {};
}

Result<std::uint32_t, std::string> parse_count(std::string_view name, std::string_view text,
                                               std::uint32_t most) {
  std::uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && end == text.data() + text.size() && count >= 1 && count <= most) return count;
  return Failure{quoted(text) + " is no number for " + quoted(name) + ": write one from 1 to " +
                 std::to_string(most) + "."};
}

Result<void, std::string> parse_item(std::string_view item, FaultSpec& spec) {
  const auto equals = item.find('=');
  const std::string_view name = item.substr(0, equals);
  if (equals == std::string_view::npos) {
    return Failure{quoted(item) + " has no value: write name=value, for example drop=1%."};
  }
  const std::string_view value = item.substr(equals + 1);
  struct Chance {
    std::string_view name;
    std::uint32_t FaultSpec::*member;
  };
  static constexpr std::array kChances = {
      Chance{"drop", &FaultSpec::drop_ppm}, Chance{"dup", &FaultSpec::duplicate_ppm},
      Chance{"reorder", &FaultSpec::reorder_ppm}, Chance{"corrupt", &FaultSpec::corrupt_ppm},
      Chance{"ecn", &FaultSpec::ecn_ppm}};
  for (const Chance& chance : kChances) {
    if (name != chance.name) continue;
    auto ppm = parse_chance(name, value);
    RRDMA_TRY(ppm);
    spec.*chance.member = *ppm;
    return {};
  }
  if (name == "delay") return parse_delay(value, spec);
  if (name == "burst" || name == "depth") {
    const bool burst = name == "burst";
    auto count = parse_count(name, value, burst ? kBurstMax : kDepthMax);
    RRDMA_TRY(count);
    (burst ? spec.burst : spec.depth) = *count;
    return {};
  }
  if (name == "mtu") {
    auto octets = parse_count(name, value, kFaultMtuMax);
    RRDMA_TRY(octets);
    spec.mtu = *octets;
    return {};
  }
  if (name == "rate") {
    auto rate = parse_rate(value);
    RRDMA_TRY(rate);
    spec.rate_kbps = *rate;
    return {};
  }
  if (name == "seed") {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), spec.seed);
    if (error == std::errc() && end == value.data() + value.size()) return {};
    return Failure{quoted(value) + " is no seed: write a number from 0 to 2^64-1."};
  }
  return Failure{quoted(name) +
                 " is no fault: known are drop, burst, dup, reorder, depth, corrupt, ecn, delay, "
                 "rate, mtu and seed."};
}

}  // namespace

Result<Duration, std::string> parse_duration(std::string_view text) {
  const auto ns = with_unit(text, kTimeUnits);
  if (!ns)
    return Failure{quoted(text) + " is no time: write a number and ns, us, ms or s, for example 50us."};
  return nanoseconds(static_cast<std::int64_t>(*ns));
}

Result<std::uint32_t, std::string> parse_chance(std::string_view name, std::string_view text) {
  const auto ppm = with_unit(text, kChanceUnits);
  if (!ppm || *ppm > 1'000'000) {
    return Failure{quoted(text) + " is no chance for " + quoted(name) +
                   ": write a percentage from 0% to 100% (at most four decimals), or ppm."};
  }
  return static_cast<std::uint32_t>(*ppm);
}

// Megabits have many spellings. "Mbps" is refused: it means bytes to tc and bits to others.
Result<std::uint64_t, std::string> parse_rate(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  std::string_view number = lower;
  for (const std::string_view bits : {"bit/s", "bit", "b/s"}) {
    if (!number.ends_with(bits)) continue;
    number.remove_suffix(bits.size());
    break;
  }
  const auto kilobits = with_unit(number, kRateUnits);
  if (kilobits && *kilobits != 0) return *kilobits;
  return Failure{quoted(text) +
                 " is no rate: write bits in a second with K, M, G or T, for example 100M or 100Mbit."};
}

// 12345 ppm as "1.2345%", without trailing zeroes.
std::string emit_chance(std::uint32_t ppm) {
  std::string text = std::to_string(ppm / 10'000);
  std::string fraction = std::to_string(10'000 + ppm % 10'000).substr(1);
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  return text + (fraction.empty() ? "" : "." + fraction) + "%";
}

std::string emit_rate(std::uint64_t kilobits) {
  if (kilobits % 1'000'000 == 0) return std::to_string(kilobits / 1'000'000) + "G";
  if (kilobits % 1'000 == 0) return std::to_string(kilobits / 1'000) + "M";
  return std::to_string(kilobits) + "K";
}

std::string emit_duration(Duration time) {
  if (time.ns % 1'000'000'000 == 0) return std::to_string(time.ns / 1'000'000'000) + "s";
  if (time.ns % 1'000'000 == 0) return std::to_string(time.ns / 1'000'000) + "ms";
  if (time.ns % 1'000 == 0) return std::to_string(time.ns / 1'000) + "us";
  return std::to_string(time.ns) + "ns";
}

Duration time_on_cable(const FaultSpec& spec, std::size_t transport_octets) {
  constexpr std::uint64_t kOuterOctets =
      14 + 20 + 8 + 4 + 4;  // Ethernet, IPv4, UDP, ICRC and frame check sequence
  return nanoseconds(
      static_cast<std::int64_t>((kOuterOctets + transport_octets) * 8 * 1'000'000 / spec.rate_kbps));
}

Result<FaultSpec, std::string> parse_fault_spec(std::string_view text) {
  FaultSpec spec;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    if (auto parsed = parse_item(item, spec); !parsed) return Failure{parsed.error()};
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty())
      return Failure{
          std::string("the fault specification ends with a comma: something is missing behind it.")};
  }
  return spec;
}

std::string emit_fault_spec(const FaultSpec& spec) {
  std::string text;
  const auto chance = [&](std::string_view name, std::uint32_t ppm) {
    if (ppm != 0) text += std::string(name) + "=" + emit_chance(ppm) + ",";
  };
  const auto count = [&](std::string_view name, std::uint32_t value, std::uint32_t usual) {
    if (value != usual) text += std::string(name) + "=" + std::to_string(value) + ",";
  };
  chance("drop", spec.drop_ppm);
  count("burst", spec.burst, 1);
  chance("dup", spec.duplicate_ppm);
  chance("reorder", spec.reorder_ppm);
  count("depth", spec.depth, 0);
  chance("corrupt", spec.corrupt_ppm);
  chance("ecn", spec.ecn_ppm);
  if (spec.delay.ns != 0 || spec.delay_spread.ns != 0) {
    text += "delay=" + emit_duration(spec.delay);
    if (spec.delay_spread.ns != 0) text += "±" + emit_duration(spec.delay_spread);
    text += ",";
  }
  if (spec.rate_kbps != 0) text += "rate=" + emit_rate(spec.rate_kbps) + ",";
  count("mtu", spec.mtu, 0);
  return text + "seed=" + std::to_string(spec.seed);
}

}  // namespace rrdma::link
