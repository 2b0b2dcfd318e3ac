// Loads the verbs libraries, and RRDMA in front of them if this machine has no device (ADR 0030).
//
// librdmacm needs RRDMA's versions of verbs calls and of a few C library calls. A library that is loaded
// later cannot take over calls that are already bound. This library therefore links neither libibverbs nor
// librdmacm. It opens librrdma-device.so.1, which depends on RRDMA, librdmacm and libibverbs in this order,
// with RTLD_DEEPBIND: these libraries search for functions in each other first, in this order. verbs_calls.cc
// calls the functions found there.
#include "lib/comm/verbs_library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "lib/comm/verbs_calls.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {
namespace {

constexpr const char* kNic = "librrdma.so.1";
constexpr const char* kDoor = "librrdma-device.so.1";
constexpr const char* kVerbs = "libibverbs.so.1";
constexpr const char* kRdmaCm = "librdmacm.so.1";
constexpr const char* kDevices = "/sys/class/infiniband";
constexpr const char* kRdmaCmFile = "/dev/infiniband/rdma_cm";

struct Loading {
  std::mutex mutex;
  bool done = false;
  std::string why_not;
};
Loading& loading() {
  static Loading state;
  return state;
}

bool is_loaded(const char* library) {
  void* handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

bool has_active_port(const std::filesystem::path& device) {
  std::error_code error;
  for (const auto& port : std::filesystem::directory_iterator(device / "ports", error)) {
    std::string state;
    std::getline(std::ifstream(port.path() / "state"), state);
    if (state.find("ACTIVE") != std::string::npos) return true;
  }
  return false;
}

// Whether the kernel has a device that the caller can use.
bool has_hardware(const std::string& name) {
  if (::access(kRdmaCmFile, R_OK | W_OK) != 0) return false;
  std::error_code error;
  if (!name.empty()) return std::filesystem::exists(std::filesystem::path(kDevices) / name, error);
  for (const auto& device : std::filesystem::directory_iterator(kDevices, error)) {
    if (has_active_port(device.path())) return true;
  }
  return false;
}

// The folder of this library, with a slash.
std::string own_folder() {
  const std::string file = library_of(reinterpret_cast<const void*>(&load_verbs));
  return file.substr(0, file.rfind('/') + 1);
}

// Opens RRDMA with librdmacm and libibverbs behind it. Null if that is impossible; `why` then says why.
void* open_door(std::string& why) {
  // AddressSanitizer and its relatives refuse RTLD_DEEPBIND.
  if (::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr || ::dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr) {
    why = "RRDMA cannot be loaded into a program with a sanitizer";
    return nullptr;
  }
  if (is_loaded(kRdmaCm)) {
    why = "the program has loaded librdmacm already, so RRDMA cannot be loaded below it";
    return nullptr;
  }
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
  void* handle = ::dlopen((own_folder() + kDoor).c_str(), kFlags);
  if (handle == nullptr) handle = ::dlopen(kDoor, kFlags);
  if (handle == nullptr) why = ::dlerror();
  return handle;
}

Error missing(const char* what) {
  const char* reason = ::dlerror();
  return Error(Code::kNoDevice, During::kOpen).with_note(reason != nullptr ? reason : what);
}

// The libraries as the program and its environment provide them: hardware, or RRDMA if it is preloaded or
// linked.
Result<void> take_system_calls() {
  void* verbs = ::dlopen(kVerbs, RTLD_NOW | RTLD_LOCAL);
  if (verbs == nullptr) return missing(kVerbs);
  void* rdma_cm = ::dlopen(kRdmaCm, RTLD_NOW | RTLD_LOCAL);
  if (rdma_cm == nullptr) return missing(kRdmaCm);
  const bool found = take_calls([&](const char* name) {
    // A preloaded library comes first.
    if (void* function = ::dlsym(RTLD_DEFAULT, name)) return function;
    void* function = ::dlsym(verbs, name);
    return function != nullptr ? function : ::dlsym(rdma_cm, name);
  });
  if (!found) return missing("libibverbs or librdmacm is too old");
  return {};
}

}  // namespace

std::string library_of(const void* function) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

Result<void> load_verbs(const std::string& device, bool software) {
  Loading& state = loading();
  const std::lock_guard lock(state.mutex);
  if (state.done) return {};
  state.why_not.clear();
  if (software && !is_loaded(kNic) && !has_hardware(device)) {
    if (void* door = open_door(state.why_not)) {
      state.done = take_calls([door](const char* name) { return ::dlsym(door, name); });
      if (state.done) return {};
    }
  }
  auto taken = take_system_calls();
  state.done = taken.ok();
  return taken;
}

std::string why_no_software_device() {
  Loading& state = loading();
  const std::lock_guard lock(state.mutex);
  return state.why_not;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
