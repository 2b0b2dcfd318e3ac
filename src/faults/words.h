// The names that rules use for numbers: errno, ibv_wc_status, messages of the connection manager, functions
// of libibverbs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace rrdma::faults {

[[nodiscard]] std::optional<int> errno_of(std::string_view name);  // ENOMEM, or a number
[[nodiscard]] std::string_view errno_name(int error);              // empty: unknown
[[nodiscard]] std::optional<int> status_of(
    std::string_view name);  // RETRY_EXC_ERR, also as IBV_WC_RETRY_EXC_ERR
[[nodiscard]] std::string_view status_name(int status);
[[nodiscard]] std::optional<int> cm_message_of(std::string_view name);  // REQ as its attribute ID
[[nodiscard]] bool is_function(std::string_view name);                  // that a rule can act on

// Complete lists.
[[nodiscard]] std::span<const std::string_view> functions();
[[nodiscard]] std::span<const std::string_view> statuses();  // by number; the first one, success, is no fault
[[nodiscard]] std::vector<std::string_view> errors();
[[nodiscard]] std::vector<std::string_view> cm_messages();

}  // namespace rrdma::faults
