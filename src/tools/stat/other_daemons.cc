#include "tools/stat/other_daemons.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "daemon/slots/port_holder.h"

namespace rrdma::tools {
namespace {

constexpr std::string_view kNameBeforeUid = "@rrdma.user.";  // @: abstract; see control::user_name
constexpr std::string_view kListening = "00010000";

// One line: "0000000000000000: 00000002 00000000 00010000 0005 01 34567 @rrdma.user.1000"
std::optional<uid_t> user_of(const std::string& line) {
  std::istringstream fields(line);
  std::string address, references, protocol, flags, type, state, inode, name;
  if (!(fields >> address >> references >> protocol >> flags >> type >> state >> inode >> name))
    return std::nullopt;
  if (flags != kListening || name.compare(0, kNameBeforeUid.size(), kNameBeforeUid) != 0) return std::nullopt;
  uid_t uid = 0;
  const char* end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + kNameBeforeUid.size(), end, uid);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return uid;
}

}  // namespace

std::vector<uid_t> other_users_with_daemons() {
  std::ifstream table("/proc/net/unix");
  std::vector<uid_t> users;
  for (std::string line; std::getline(table, line);) {
    const auto user = user_of(line);
    if (user && *user != ::geteuid()) users.push_back(*user);
  }
  std::sort(users.begin(), users.end());
  users.erase(std::unique(users.begin(), users.end()), users.end());
  return users;
}

std::string other_daemons_text(const std::vector<uid_t>& users) {
  std::string text = "Daemons of other users: ";
  for (std::size_t i = 0; i < users.size(); ++i)
    text += (i == 0 ? "" : ", ") + daemon::describe_user(users[i]);
  return text + ".";
}

}  // namespace rrdma::tools
