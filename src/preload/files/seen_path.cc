#include "preload/files/seen_path.h"

#include <algorithm>
#include <deque>

namespace rrdma::files {
namespace {

constexpr std::string_view kTree = "/files.";
constexpr std::string_view kParent = "rrdma";
constexpr std::size_t kFingerprintDigits = 16;
constexpr int kLinksMax = 40;  // the kernel's limit

bool is_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

void push_components(std::deque<std::string>& to, std::string_view path) {
  std::size_t at = path.size();
  while (at != 0) {
    const std::size_t slash = path.substr(0, at).rfind('/');
    const std::size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
    if (begin != at) to.emplace_front(path.substr(begin, at - begin));
    at = slash == std::string_view::npos ? 0 : slash;
  }
}

void go_up(std::string& path) { path.resize(path.empty() ? 0 : path.rfind('/')); }

}  // namespace

std::string_view seen_path(std::string_view real) {
  for (std::size_t at = real.find(kTree); at != std::string_view::npos; at = real.find(kTree, at + 1)) {
    const std::string_view digits = real.substr(at + kTree.size(), kFingerprintDigits);
    const std::string_view rest = real.substr(std::min(real.size(), at + kTree.size() + kFingerprintDigits));
    const std::string_view before = real.substr(0, at);
    const bool ours = digits.size() == kFingerprintDigits &&
                      std::all_of(digits.begin(), digits.end(), is_digit) &&
                      before.substr(before.rfind('/') + 1).starts_with(kParent);
    if (ours && rest.empty()) return "/";
    if (ours && rest.front() == '/') return rest;
  }
  return {};
}

bool has_dots(std::string_view path) {
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    if (name == "." || name == "..") return true;
    begin = end + 1;
  }
  return false;
}

std::string without_dots(std::string_view path, const ReadLink& read_link) {
  std::deque<std::string> left;
  push_components(left, path);
  std::string walked;  // without a trailing slash
  int links = 0;
  while (!left.empty()) {
    const std::string name = std::move(left.front());
    left.pop_front();
    if (name == ".") continue;
    if (name == "..") {
      go_up(walked);
      continue;
    }
    const std::string next = walked + "/" + name;
    const auto target = left.empty() ? std::nullopt : read_link(next);
    if (!target) {
      walked = next;
      continue;
    }
    if (++links > kLinksMax) return std::string(path);
    if (target->starts_with('/')) walked.clear();
    push_components(left, *target);
  }
  return walked.empty() ? "/" : walked;
}

}  // namespace rrdma::files
