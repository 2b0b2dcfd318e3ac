#include "faults/words.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

namespace rrdma::faults {
namespace {

struct Word {
  std::string_view name;
  int value;
};

constexpr std::array kErrors = {
    Word{"EPERM", EPERM},
    Word{"ENOENT", ENOENT},
    Word{"EINTR", EINTR},
    Word{"EIO", EIO},
    Word{"ENXIO", ENXIO},
    Word{"EAGAIN", EAGAIN},
    Word{"ENOMEM", ENOMEM},
    Word{"EACCES", EACCES},
    Word{"EFAULT", EFAULT},
    Word{"EBUSY", EBUSY},
    Word{"ENODEV", ENODEV},
    Word{"EINVAL", EINVAL},
    Word{"ENFILE", ENFILE},
    Word{"EMFILE", EMFILE},
    Word{"ENOSPC", ENOSPC},
    Word{"ENOSYS", ENOSYS},
    Word{"ENODATA", ENODATA},
    Word{"EPROTO", EPROTO},
    Word{"EOPNOTSUPP", EOPNOTSUPP},
    Word{"EADDRINUSE", EADDRINUSE},
    Word{"EADDRNOTAVAIL", EADDRNOTAVAIL},
    Word{"ENETDOWN", ENETDOWN},
    Word{"ENETUNREACH", ENETUNREACH},
    Word{"ECONNRESET", ECONNRESET},
    Word{"ETIMEDOUT", ETIMEDOUT},
    Word{"ECONNREFUSED", ECONNREFUSED},
    Word{"EHOSTUNREACH", EHOSTUNREACH},
};

// ibv_wc_status, in its order.
constexpr std::array<std::string_view, 24> kStatuses = {"SUCCESS",
                                                        "LOC_LEN_ERR",
                                                        "LOC_QP_OP_ERR",
                                                        "LOC_EEC_OP_ERR",
                                                        "LOC_PROT_ERR",
                                                        "WR_FLUSH_ERR",
                                                        "MW_BIND_ERR",
                                                        "BAD_RESP_ERR",
                                                        "LOC_ACCESS_ERR",
                                                        "REM_INV_REQ_ERR",
                                                        "REM_ACCESS_ERR",
                                                        "REM_OP_ERR",
                                                        "RETRY_EXC_ERR",
                                                        "RNR_RETRY_EXC_ERR",
                                                        "LOC_RDD_VIOL_ERR",
                                                        "REM_INV_RD_REQ_ERR",
                                                        "REM_ABORT_ERR",
                                                        "INV_EECN_ERR",
                                                        "INV_EEC_STATE_ERR",
                                                        "FATAL_ERR",
                                                        "RESP_TIMEOUT_ERR",
                                                        "GENERAL_ERR",
                                                        "TM_ERR",
                                                        "TM_RNDV_INCOMPLETE"};

// Attribute IDs of the Communication Management class (IBTA 12.6).
constexpr std::array kMessages = {Word{"REQ", 0x10},  Word{"MRA", 0x11},      Word{"REJ", 0x12},
                                  Word{"REP", 0x13},  Word{"RTU", 0x14},      Word{"DREQ", 0x15},
                                  Word{"DREP", 0x16}, Word{"SIDR_REQ", 0x17}, Word{"SIDR_REP", 0x18}};

// ibv_reg_mr_iova2 is missing: verbs.h maps ibv_reg_mr to it, and rules use the name ibv_reg_mr.
constexpr std::array<std::string_view, 58> kFunctions = {"ibv_open_device",
                                                         "ibv_close_device",
                                                         "ibv_query_device",
                                                         "ibv_query_device_ex",
                                                         "ibv_query_port",
                                                         "ibv_query_gid",
                                                         "ibv_query_gid_ex",
                                                         "ibv_query_gid_table",
                                                         "ibv_query_pkey",
                                                         "ibv_alloc_pd",
                                                         "ibv_dealloc_pd",
                                                         "ibv_alloc_td",
                                                         "ibv_dealloc_td",
                                                         "ibv_alloc_parent_domain",
                                                         "ibv_reg_mr",
                                                         "ibv_reg_mr_iova",
                                                         "ibv_reg_dmabuf_mr",
                                                         "ibv_reg_dm_mr",
                                                         "ibv_alloc_null_mr",
                                                         "ibv_advise_mr",
                                                         "ibv_rereg_mr",
                                                         "ibv_dereg_mr",
                                                         "ibv_alloc_mw",
                                                         "ibv_dealloc_mw",
                                                         "ibv_bind_mw",
                                                         "ibv_alloc_dm",
                                                         "ibv_free_dm",
                                                         "ibv_create_comp_channel",
                                                         "ibv_destroy_comp_channel",
                                                         "ibv_create_cq",
                                                         "ibv_create_cq_ex",
                                                         "ibv_resize_cq",
                                                         "ibv_modify_cq",
                                                         "ibv_destroy_cq",
                                                         "ibv_poll_cq",
                                                         "ibv_start_poll",
                                                         "ibv_req_notify_cq",
                                                         "ibv_create_srq",
                                                         "ibv_create_srq_ex",
                                                         "ibv_modify_srq",
                                                         "ibv_query_srq",
                                                         "ibv_destroy_srq",
                                                         "ibv_post_srq_recv",
                                                         "ibv_create_qp",
                                                         "ibv_create_qp_ex",
                                                         "ibv_modify_qp",
                                                         "ibv_query_qp",
                                                         "ibv_destroy_qp",
                                                         "ibv_post_send",
                                                         "ibv_wr_complete",
                                                         "ibv_post_recv",
                                                         "ibv_create_ah",
                                                         "ibv_create_ah_from_wc",
                                                         "ibv_destroy_ah",
                                                         "ibv_attach_mcast",
                                                         "ibv_detach_mcast",
                                                         "ibv_open_xrcd",
                                                         "ibv_close_xrcd"};

template <std::size_t N>
std::vector<std::string_view> names_of(const std::array<Word, N>& words) {
  std::vector<std::string_view> names;
  for (const Word& word : words) names.push_back(word.name);
  return names;
}

template <std::size_t N>
std::optional<int> value_in(const std::array<Word, N>& words, std::string_view name) {
  const auto found =
      std::find_if(words.begin(), words.end(), [&](const Word& word) { return word.name == name; });
  if (found != words.end()) return found->value;
  int value = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
  if (error != std::errc() || end != name.data() + name.size() || value <= 0 || value > 4095)
    return std::nullopt;
  return value;
}

}  // namespace

std::optional<int> errno_of(std::string_view name) { return value_in(kErrors, name); }

std::string_view errno_name(int error) {
  const auto found =
      std::find_if(kErrors.begin(), kErrors.end(), [&](const Word& word) { return word.value == error; });
  return found != kErrors.end() ? found->name : std::string_view();
}

std::optional<int> status_of(std::string_view name) {
  constexpr std::string_view kPrefix = "IBV_WC_";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  const auto found = std::find(kStatuses.begin() + 1, kStatuses.end(), name);  // success is no fault
  if (found == kStatuses.end()) return std::nullopt;
  return static_cast<int>(found - kStatuses.begin());
}

std::string_view status_name(int status) {
  return status >= 0 && static_cast<std::size_t>(status) < kStatuses.size()
             ? kStatuses[static_cast<std::size_t>(status)]
             : std::string_view();
}

std::optional<int> cm_message_of(std::string_view name) {
  const auto found =
      std::find_if(kMessages.begin(), kMessages.end(), [&](const Word& word) { return word.name == name; });
  if (found == kMessages.end()) return std::nullopt;
  return found->value;
}

bool is_function(std::string_view name) {
  return std::find(kFunctions.begin(), kFunctions.end(), name) != kFunctions.end();
}

std::span<const std::string_view> functions() { return kFunctions; }
std::span<const std::string_view> statuses() { return kStatuses; }
std::vector<std::string_view> errors() { return names_of(kErrors); }
std::vector<std::string_view> cm_messages() { return names_of(kMessages); }

}  // namespace rrdma::faults
