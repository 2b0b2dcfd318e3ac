#include "preload/files/tree_store.h"

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "base/format.h"
#include "base/owned_fd.h"
#include "base/raw_syscall.h"

namespace rrdma::files {
namespace {

namespace fs = std::filesystem;

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

fs::file_time_type::duration age_of(const std::string& path, std::error_code& error) {
  const fs::file_time_type changed = fs::last_write_time(path, error);
  return error ? fs::file_time_type::duration::max() : fs::file_time_type::clock::now() - changed;
}

// True if the tree exists and is complete.
bool is_usable(const std::string& root, const std::vector<TreeEntry>& entries) {
  std::error_code error;
  const auto age = age_of(root, error);
  if (error) return false;
  if (age < kTrustedFor) return true;
  for (const TreeEntry& entry : entries) {
    if (!fs::exists(fs::symlink_status(root + "/" + entry.path, error))) return false;
  }
  fs::last_write_time(root, fs::file_time_type::clock::now(), error);
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
  std::error_code error;
  if (!write(fresh, entries)) {
    fs::remove_all(fresh, error);
    return {};
  }
  // Remove an incomplete tree. A tree that another process has just put there is equally good.
  if (!is_usable(root, entries)) fs::remove_all(root, error);
  fs::rename(fresh, root, error);
  if (error) fs::remove_all(fresh, error);
  remove_unused();
  return is_usable(root, entries) ? root : std::string();
}

bool TreeStore::write(const std::string& root, const std::vector<TreeEntry>& entries) const {
  for (const TreeEntry& entry : entries) {
    const std::string path = root + "/" + entry.path;
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    if (error) return false;
    if (entry.kind == TreeEntry::Kind::kLink) {
      fs::create_symlink(entry.content, path, error);
      if (error) return false;
    } else if (!write_file(path, entry.content)) {
      return false;
    }
  }
  return true;
}

void TreeStore::remove_unused() const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    if (age_of(entry.path(), error) > kUnusedMax && !error) fs::remove_all(entry.path(), error);
  }
}

}  // namespace rrdma::files
