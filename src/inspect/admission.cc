// Admission of requests; see server.h.
#include <string>

#include "inspect/server.h"

namespace rrdma::tools {
namespace {

// Takes the same time for every position of a difference.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

bool is_ours(std::string_view authority, int port) {
  const std::string suffix = ":" + std::to_string(port);
  return authority == "127.0.0.1" + suffix || authority == "localhost" + suffix;
}

}  // namespace

Admission admission_of(const RequestHead& head, std::string_view token, int port, bool orders) {
  const bool order = orders && head.method == "POST";
  if (head.method != "GET" && !order) return Admission::kWrongMethod;
  // A foreign DNS name that resolves to 127.0.0.1 is detected by its Host header (DNS rebinding).
  if (!is_ours(head.host, port)) return Admission::kForeignHost;
  constexpr std::string_view kScheme = "http://";
  // Browsers send the origin with every POST. A request without one does not come from our page.
  if (order && head.origin.empty()) return Admission::kForeignOrigin;
  if (!head.origin.empty() && (head.origin.substr(0, kScheme.size()) != kScheme ||
                               !is_ours(head.origin.substr(kScheme.size()), port)))
    return Admission::kForeignOrigin;
  const bool framed =
      head.path.size() >= token.size() + 2 && head.path[0] == '/' && head.path[token.size() + 1] == '/';
  if (!framed || !equal_in_constant_time(head.path.substr(1, token.size()), token))
    return Admission::kWrongToken;
  if (!order) return Admission::kAdmitted;
  return head.path.substr(token.size() + 2) == kOrderPath ? Admission::kAdmittedOrder
                                                          : Admission::kWrongMethod;
}

}  // namespace rrdma::tools
