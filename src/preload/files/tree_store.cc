#include "preload/files/tree_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "base/format.h"
#include "base/owned_fd.h"
#include "base/raw_syscall.h"
#include "control/raw_stat.h"
#include "preload/files/folders.h"

namespace rrdma::files {
namespace {

constexpr const char* kPrefix = "files.";
constexpr auto kUnusedMax = std::chrono::hours(24);
// Cleaners of temporary folders spare a tree that was used within this time, so it needs no check.
constexpr auto kTrustedFor = std::chrono::hours(1);

std::uint64_t fingerprint(const std::vector<TreeEntry>& entries) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto take = [&](std::uint8_t octet) { hash = (hash ^ octet) * 0x100000001b3; };
  const auto take_text = [&](const std::string& text) {
    for (const char c : text) take(static_cast<std::uint8_t>(c));
    take(0);
  };
  for (const TreeEntry& entry : entries) {
    take_text(entry.path);
    take(static_cast<std::uint8_t>(entry.kind));
    take_text(entry.content);
  }
  return hash;
}

// The time since the last change; nothing if there is no such file.
std::optional<std::chrono::system_clock::duration> age_of(const std::string& path) {
  struct stat status {};
  if (control::raw_stat(path.c_str(), status) != 0) return std::nullopt;
  return std::chrono::system_clock::now() - std::chrono::system_clock::from_time_t(status.st_mtime);
}

// True if the tree exists and is complete.
bool is_usable(const std::string& root, const std::vector<TreeEntry>& entries) {
  const auto age = age_of(root);
  if (!age) return false;
  if (*age < kTrustedFor) return true;
  for (const TreeEntry& entry : entries) {
    struct stat status {};
    if (control::raw_stat((root + "/" + entry.path).c_str(), status, AT_SYMLINK_NOFOLLOW) != 0) return false;
  }
  (void)::utimensat(AT_FDCWD, root.c_str(), nullptr, 0);
  return true;
}

bool write_file(const std::string& path, const std::string& content) {
  const OwnedFd fd(raw::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
  return fd.get() >= 0 &&
         raw::write(fd.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size());
}

}  // namespace

std::string TreeStore::keep(const std::vector<TreeEntry>& entries) const {
  const std::string root = formatted("{}/{}{:016x}", folder_, kPrefix, fingerprint(entries));
  if (is_usable(root, entries)) return root;
  static std::atomic<unsigned> attempts{0};
  const std::string fresh =
      formatted("{}/{}new.{}.{}", folder_, kPrefix, raw::getpid(), attempts.fetch_add(1));
  if (!write(fresh, entries)) {
    remove_tree(fresh);
    return {};
  }
  // Remove an incomplete tree. A tree that another process has just put there is equally good.
  if (!is_usable(root, entries)) remove_tree(root);
  if (std::rename(fresh.c_str(), root.c_str()) != 0) remove_tree(fresh);
  remove_unused();
  return is_usable(root, entries) ? root : std::string();
}

bool TreeStore::write(const std::string& root, const std::vector<TreeEntry>& entries) const {
  for (const TreeEntry& entry : entries) {
    const std::string path = root + "/" + entry.path;
    if (!make_folders_above(path)) return false;
    if (entry.kind == TreeEntry::Kind::kLink) {
      if (::symlink(entry.content.c_str(), path.c_str()) != 0) return false;
    } else if (!write_file(path, entry.content)) {
      return false;
    }
  }
  return true;
}

void TreeStore::remove_unused() const {
  for (const std::string& name : names_in(folder_)) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string path = folder_ + "/" + name;
    const auto age = age_of(path);
    if (age && *age > kUnusedMax) remove_tree(path);
  }
}

}  // namespace rrdma::files
