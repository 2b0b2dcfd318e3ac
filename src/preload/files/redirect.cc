#include "preload/files/redirect.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>

#include "host/clock.h"
#include "host/descriptor_room.h"
#include "host/explain.h"
#include "host/explain_log.h"
#include "nic/process/runtime.h"
#include "preload/files/counter_files.h"
#include "preload/files/excepted.h"
#include "preload/files/folders.h"
#include "preload/files/path_rule.h"
#include "preload/files/seen_path.h"
#include "preload/files/tree_store.h"

namespace rrdma::files {
namespace {

// The lifetime of a cached tree: a program reads dozens of files in a row.
constexpr std::int64_t kFreshNs = 200'000'000;

thread_local __attribute__((tls_model("initial-exec"))) int machine_only = 0;

// "net:[4026531840]"; empty if /proc is not mounted.
std::string own_network() {
  char name[64];
  const long size = ::syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/net", name, sizeof name);
  return size > 0 ? std::string(name, static_cast<std::size_t>(size)) : std::string();
}

struct Tree {
  std::string root;
  PathRule rule;
};

// One for a folder that is read, others for one that is written or removed inside another.
constexpr unsigned kDescriptorsNeeded = 4;

// The queries of the machine cannot report a descriptor limit: a folder would seem empty. So check for room
// first.
Result<std::vector<DeviceView>, Problem> view_with_room() {
  if (const auto room = host::require_descriptors(kDescriptorsNeeded); !room) return Failure{room.error()};
  return view_devices();
}

Tree make_tree() {
  const auto seen = view_with_room();
  if (!seen)
    host::explain(host::Severity::kError, "rrdma",
                  "the files of the device (/sys/class/infiniband): " + seen.error().sentence);
  if (!seen || seen->empty()) return {};
  const std::vector<DeviceView>& views = *seen;
  KernelNames kernel{.devices = names_in("/sys/class/infiniband"),
                     .verbs_files = names_in("/sys/class/infiniband_verbs"),
                     .device_files = names_in("/dev/infiniband"),
                     .device_folders = names_in("/sys/devices/virtual/infiniband"),
                     .verbs_folders = names_in("/sys/devices/virtual/infiniband_verbs")};
  if (nic::Runtime::instance().settings().kernel_devices == nic::KernelDevices::kHidden)
    kernel = KernelNames{.hidden = true};
  const std::string folder = host::explain_directory();
  std::vector<TreeEntry> entries = device_tree(views, kernel);
  // Devices of two networks may look alike, but have separate counters.
  entries.push_back({"network", TreeEntry::Kind::kFile, own_network()});
  std::string root = folder.empty() ? folder : TreeStore(folder).keep(entries);
  if (root.empty()) {
    host::explain(host::Severity::kError, "rrdma",
                  "the files of the device (/sys/class/infiniband) cannot be written: neither "
                  "$XDG_RUNTIME_DIR nor /tmp is writable.");
    return {};
  }
  return {std::move(root), PathRule(views, kernel)};
}

// The current tree. Never waits for another thread: in the child of a fork, a thread that does not exist
// there may hold the lock.
Tree current_tree() {
  struct Cache {
    std::mutex mutex;
    Tree tree;
    std::int64_t made_ns = 0;
  };
  static auto* const cache = new Cache;
  std::unique_lock lock(cache->mutex, std::try_to_lock);
  if (!lock.owns_lock()) return make_tree();
  const std::int64_t now_ns = host::now().ns;
  if (cache->made_ns == 0 || now_ns - cache->made_ns > kFreshNs) {
    cache->tree = make_tree();
    cache->made_ns = cache->tree.root.empty() ? 0 : now_ns;  // retry if it could not be created
  }
  return cache->tree;
}

}  // namespace

MachineFiles::MachineFiles() { ++machine_only; }
MachineFiles::~MachineFiles() { --machine_only; }
bool reads_machine_files() { return machine_only != 0; }

std::string real_folder(int folder) {
  char text[PATH_MAX];
  if (folder == AT_FDCWD) {
    const long size = ::syscall(SYS_getcwd, text, sizeof text);
    return size > 0 ? std::string(text) : std::string();
  }
  const std::string link = "/proc/self/fd/" + std::to_string(folder);
  const long size = ::syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), text, sizeof text);
  return size > 0 && text[0] == '/' ? std::string(text, static_cast<std::size_t>(size)) : std::string();
}

std::size_t as_seen(char* found, std::size_t size) {
  if (machine_only != 0) return size;
  const std::string_view seen = seen_path({found, size});
  if (seen.empty()) return size;
  const std::size_t length = seen.size();
  std::memmove(found, seen.data(), length);
  return length;
}

char* as_seen(char* found) {
  if (found != nullptr) found[as_seen(found, std::strlen(found))] = '\0';
  return found;
}

void Redirect::take(std::string_view root, std::string_view path) {
  if (root.size() + path.size() >= sizeof text_) return;
  std::memcpy(text_, root.data(), root.size());
  std::memcpy(text_ + root.size(), path.data(), path.size());
  text_[root.size() + path.size()] = '\0';
  path_ = text_;
  inside_ = !root.empty();
  if (inside_) led.store(true, std::memory_order_relaxed);
}

void Redirect::follow(const char* named) {
  if (machine_only != 0 || is_excepted()) return;
  std::string path(named);
  const bool dots = has_dots(path);
  if (!dots && !PathRule::may_match(path)) {
    if (named != path_) take({}, path);
    return;
  }
  const int saved = errno;
  const MachineFiles inside;  // building the tree must read the machine's own files
  const Tree tree = current_tree();
  const auto is_ours = [&](std::string_view what) {
    return !tree.root.empty() && PathRule::may_match(what) && tree.rule.matches(what);
  };
  if (dots) {
    path = without_dots(path, [&](const std::string& at) -> std::optional<std::string> {
      char target[PATH_MAX];
      const std::string real = is_ours(at) ? tree.root + at : at;
      const long size = ::syscall(SYS_readlinkat, AT_FDCWD, real.c_str(), target, sizeof target);
      return size > 0 ? std::optional(std::string(target, static_cast<std::size_t>(size))) : std::nullopt;
    });
  }
  if (is_ours(path)) {
    if (const auto place = counter_place(path)) refresh_counters(tree.root, *place);
    take(tree.root, path);
  } else if (dots || named != path_) {
    take({}, path);
  }
  errno = saved;
}

void Redirect::follow_from(int folder) {
  if (machine_only != 0) return;
  const int saved = errno;
  const std::string real = real_folder(folder);
  const std::string_view seen = seen_path(real);
  errno = saved;
  if (seen.empty()) return;
  follow((std::string(seen == "/" ? "" : seen) + "/" + path_).c_str());
}

bool Redirect::plans_pci() {
  static const bool planned = [] {
    const char* plan = std::getenv("RRDMA_DEVICE_PLAN");
    return plan != nullptr && std::strstr(plan, "pci=") != nullptr;
  }();
  return planned;
}

}  // namespace rrdma::files
