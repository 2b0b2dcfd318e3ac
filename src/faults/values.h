// Values inside a rule: numbers, times, addresses. Errors are sentences.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/instant.h"
#include "base/result.h"
#include "wire/gid.h"

namespace rrdma::faults {

[[nodiscard]] std::string quoted(std::string_view text);
// Decimal, or hexadecimal with 0x; `name` is for the error.
[[nodiscard]] Result<std::uint64_t, std::string> number_of(std::string_view name, std::string_view text,
                                                           std::uint64_t least);
// At most a year.
[[nodiscard]] Result<Duration, std::string> time_of(std::string_view text);

}  // namespace rrdma::faults
