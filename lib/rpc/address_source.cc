#include "lib/rpc/address_source.h"

#include <arpa/inet.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {
namespace {

constexpr std::string_view kFileScheme = "file:";

// Whether "host:port" has a name for a host.
bool is_name(std::string_view target) {
  const std::string_view host = target.substr(0, target.rfind(':'));
  if (host.empty() || host.find(':') != std::string_view::npos || host.front() == '[') return false;
  in_addr v4{};
  return ::inet_pton(AF_INET, std::string(host).c_str(), &v4) != 1;
}

AddressSource::Kind kind_of(std::string_view target) {
  if (target.starts_with(kFileScheme)) return AddressSource::Kind::kFile;
  return is_name(target) ? AddressSource::Kind::kName : AddressSource::Kind::kAddress;
}

}  // namespace

std::vector<std::string> addresses_in(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  std::vector<std::string> found;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    line = line.substr(0, line.find('#'));
    const std::size_t first = line.find_first_not_of(kSpace);
    if (first == std::string_view::npos) continue;
    found.emplace_back(line.substr(first, line.find_last_not_of(kSpace) + 1 - first));
  }
  return found;
}

AddressSource::AddressSource(std::string target) : target_(std::move(target)), kind_(kind_of(target_)) {
  if (kind_ == Kind::kAddress) addresses_.push_back(target_);
}

bool AddressSource::read(Status& status) {
  const std::string path = target_.substr(kFileScheme.size());
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    status = Status(Code::kUnavailable, path + ": " + std::strerror(errno));
    return false;
  }
  const Stamp stamp{found.st_dev, found.st_ino, found.st_size,
                    found.st_mtim.tv_sec * 1'000'000'000LL + found.st_mtim.tv_nsec};
  if (stamp == stamp_) return false;
  std::ifstream file(path);
  std::ostringstream text;
  if (!(text << file.rdbuf()) && found.st_size != 0) {
    status = Status(Code::kUnavailable, path + " cannot be read");
    return false;
  }
  stamp_ = stamp;
  addresses_ = addresses_in(text.str());
  return true;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
