// A libcuda.so.1 for tests without a GPU. "Device memory" is a memfd that is mapped twice: without any access
// at the address that the program sees, so that a touch by the CPU is a fault, and for the stub itself.
// Streams have threads: an asynchronous copy reads its source some time after the call, as a real one does.
// cuMemcpyHtoD returns before its data has arrived, unless the memory has the attribute SYNC_MEMOPS. Calls
// that need a context fail without one, in a child of fork, and after exit() unloaded the stub. The address
// of freed memory is that of the next allocation of the same length.
//
// STUB_CUDA_GATE names a file. Until it exists, a kernel occupies the device: copies between two places of
// the device do not begin, and cuMemHostUnregister and cuIpcCloseMemHandle wait.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#define STUB extern "C" __attribute__((visibility("default")))

namespace {

enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotReady = 600,
  kNotSupported = 801,
};

using Address = unsigned long long;

struct Allocation {
  std::size_t octets;
  std::uint8_t* own;  // the stub's mapping
  int fd;
  bool plain;            // cuMemAlloc
  bool created = false;  // cuMemCreate
  unsigned long long id = 0;
  bool sync_memops = false;
  void* context = nullptr;
};

struct Stream {
  explicit Stream(unsigned delay = 20) : delay_us(delay) {}
  const unsigned delay_us;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  bool ends = false;
  bool busy = false;
  std::thread thread{[this] { run(); }};

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ends || !work.empty(); });
      if (work.empty()) return;
      auto next = std::move(work.front());
      work.pop_front();
      busy = true;
      lock.unlock();
      usleep(delay_us);
      next();
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
  void add(std::function<void()> one) {
    const std::lock_guard lock(mutex);
    work.push_back(std::move(one));
    changed.notify_all();
  }
  void synchronize() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return work.empty() && !busy; });
  }
  ~Stream() {
    {
      const std::lock_guard lock(mutex);
      ends = true;
      changed.notify_all();
    }
    thread.join();
  }
};

struct Event {
  std::mutex mutex;
  std::uint64_t recorded = 0, reached = 0;
};

struct State {
  std::mutex mutex;
  bool initialized = false;
  bool active = false;        // the primary context
  unsigned long long id = 1;  // of the context
  unsigned long long next_buffer = 1;
  std::map<Address, Allocation> allocations;
  std::map<Address, std::size_t> pinned;  // memory of the host
  std::map<std::size_t, Address> freed;   // by length
  std::set<void*> own_contexts;
  std::set<void*> handles;  // streams and events: those of a reset context are not destroyed
};

// Never destroyed: threads may outlive main().
State& state() {
  static State* const one = new State;
  return *one;
}

// The default stream, on which cuMemcpyHtoD works.
Stream& default_stream() {
  static Stream* const one = new Stream(300);
  return *one;
}

int primary = 0;  // its address is the handle of the context
// The current contexts of a thread. Without a destructor: exit handlers call, too.
struct ContextStack {
  void* list[16];
  std::size_t count;
  [[nodiscard]] bool empty() const { return count == 0; }
  [[nodiscard]] void* back() const { return list[count - 1]; }
  void push_back(void* context) {
    if (count == std::size(list)) std::abort();
    list[count++] = context;
  }
  void pop_back() { --count; }
};
thread_local ContextStack contexts{};

// REQUIRES: the lock, or a thread that no other one disturbs.
bool is_alive(void* context) {
  return state().initialized &&
         (context == &primary ? state().active : state().own_contexts.contains(context));
}

bool has_context() {
  const std::lock_guard lock(state().mutex);
  return !contexts.empty() && is_alive(contexts.back());
}

// The stub's view of a range of device memory; null: it is not wholly one allocation.
std::uint8_t* own_view(Address address, std::size_t octets) {
  const std::lock_guard lock(state().mutex);
  auto after = state().allocations.upper_bound(address);
  if (after == state().allocations.begin()) return nullptr;
  const auto& [first, allocation] = *--after;
  if (address - first > allocation.octets || octets > allocation.octets - (address - first)) return nullptr;
  return allocation.own + (address - first);
}

bool is_synchronous(Address address) {
  const std::lock_guard lock(state().mutex);
  return std::prev(state().allocations.upper_bound(address))->second.sync_memops;
}

// Maps the file as device memory. Takes the descriptor.
int map_memory(Address* address, int fd, std::size_t octets, bool plain, bool created) {
  if (*address == 0) {
    const std::lock_guard lock(state().mutex);
    if (const auto freed = state().freed.find(octets); freed != state().freed.end()) {
      *address = freed->second;
      state().freed.erase(freed);
    }
  }
  const int fixed = *address != 0 ? MAP_FIXED : 0;
  void* const seen = mmap(reinterpret_cast<void*>(static_cast<std::uintptr_t>(*address)), octets, PROT_NONE,
                          MAP_SHARED | fixed, fd, 0);
  void* const own = mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (seen == MAP_FAILED || own == MAP_FAILED) return kOutOfMemory;
  const std::lock_guard lock(state().mutex);
  *address = reinterpret_cast<std::uintptr_t>(seen);
  state().allocations[*address] = {
      octets,  static_cast<std::uint8_t*>(own), fd,    plain,
      created, state().next_buffer++,           false, contexts.empty() ? nullptr : contexts.back()};
  return kSuccess;
}

int create_file(std::size_t octets) {
  const int fd = memfd_create("stub-device-memory", MFD_CLOEXEC);
  return fd >= 0 && ftruncate(fd, static_cast<off_t>(octets)) == 0 ? fd : -1;
}

std::size_t length_of(int fd) { return static_cast<std::size_t>(lseek(fd, 0, SEEK_END)); }

int allocate(Address* address, std::size_t octets, bool plain) {
  if (!has_context()) return kInvalidContext;
  if (octets == 0) return kInvalidValue;
  const int fd = create_file(octets);
  *address = 0;
  return fd < 0 ? kOutOfMemory : map_memory(address, fd, octets, plain, false);
}

// The allocation of an address, under the lock; null: none.
const std::pair<const Address, Allocation>* find_allocation(Address address) {
  auto after = state().allocations.upper_bound(address);
  if (after == state().allocations.begin()) return nullptr;
  const auto& found = *--after;
  return address - found.first < found.second.octets ? &found : nullptr;
}

bool is_pinned(Address address) {
  const std::lock_guard lock(state().mutex);
  auto after = state().pinned.upper_bound(address);
  return after != state().pinned.begin() && address - std::prev(after)->first < std::prev(after)->second;
}

int add_pinned(const void* memory, std::size_t octets) {
  const auto first = reinterpret_cast<std::uintptr_t>(memory);
  const std::lock_guard lock(state().mutex);
  for (const auto& [other, length] : state().pinned) {
    if (first < other + length && other < first + octets) return 712;  // already registered
  }
  state().pinned[first] = octets;
  return kSuccess;
}

void wait_at_gate() {
  static const char* const gate = std::getenv("STUB_CUDA_GATE");
  while (gate != nullptr && access(gate, F_OK) != 0) usleep(100);
}

// The address stays without access, so that a use of it is found.
void release(Address address, const Allocation& allocation) {
  mmap(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), allocation.octets, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  munmap(allocation.own, allocation.octets);
  close(allocation.fd);
}

// Everything of a context goes: its memory, too. REQUIRES: the lock.
void release_all_of(void* context) {
  for (auto at = state().allocations.begin(); at != state().allocations.end();) {
    const auto one = at++;
    if (one->second.context != context) continue;
    release(one->first, one->second);
    state().allocations.erase(one);
  }
}

// CUDA works neither in the child of a fork nor after the library was unloaded.
void end_cuda() {
  state().initialized = false;
  state().active = false;
  state().own_contexts.clear();
}

__attribute__((destructor)) void unload() {
  const std::lock_guard lock(state().mutex);
  end_cuda();  // copies may go on, so the memory stays
}

}  // namespace

STUB int cuInit(unsigned) {
  static const int hooked = pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); },
                                           [] {
                                             end_cuda();
                                             state().mutex.unlock();
                                           });
  state().initialized = true;
  return hooked == 0 ? kSuccess : kNotInitialized;
}
STUB int cuDeviceGet(int* device, int ordinal) {
  if (!state().initialized) return kNotInitialized;
  *device = ordinal;
  return ordinal == 0 ? kSuccess : kInvalidValue;
}
STUB int cuDevicePrimaryCtxRetain(void** context, int) {
  if (!state().initialized) return kNotInitialized;
  const std::lock_guard lock(state().mutex);
  state().active = true;
  *context = &primary;
  return kSuccess;
}
STUB int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  if (!state().initialized) return kNotInitialized;
  *flags = 0;
  *active = state().active;
  return kSuccess;
}
STUB int cuDevicePrimaryCtxReset_v2(int) {
  const std::lock_guard lock(state().mutex);
  state().active = false;
  ++state().id;
  release_all_of(&primary);
  return kSuccess;
}
STUB int cuCtxCreate_v2(void** context, unsigned, int) {
  if (!state().initialized) return kNotInitialized;
  const std::lock_guard lock(state().mutex);
  *context = new int;
  state().own_contexts.insert(*context);
  contexts.push_back(*context);
  return kSuccess;
}
STUB int cuCtxDestroy_v2(void* context) {
  const std::lock_guard lock(state().mutex);
  if (state().own_contexts.erase(context) == 0) return kInvalidContext;
  release_all_of(context);
  if (!contexts.empty() && contexts.back() == context) contexts.pop_back();
  delete static_cast<int*>(context);
  return kSuccess;
}
STUB int cuCtxGetCurrent(void** context) {
  *context = contexts.empty() ? nullptr : contexts.back();
  return kSuccess;
}
STUB int cuCtxSetCurrent(void* context) {
  contexts = {{context}, 1};
  return kSuccess;
}
STUB int cuCtxPushCurrent_v2(void* context) {
  const std::lock_guard lock(state().mutex);
  if (!is_alive(context)) return kInvalidContext;
  contexts.push_back(context);
  return kSuccess;
}
STUB int cuCtxPopCurrent_v2(void** context) {
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return kSuccess;
}
STUB int cuCtxGetId(void*, unsigned long long* id) {
  *id = state().id;
  return kSuccess;
}
STUB int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return has_context() ? kSuccess : kInvalidContext;
}
STUB int cuThreadExchangeStreamCaptureMode(int*) { return kSuccess; }

STUB int cuMemAlloc_v2(Address* address, std::size_t octets) { return allocate(address, octets, true); }
STUB int cuMemAllocManaged(Address* address, std::size_t octets, unsigned) {
  return allocate(address, octets, false);
}
STUB int cuMemAllocAsync(Address* address, std::size_t octets, void*) {
  return allocate(address, octets, false);
}
STUB int cuCtxSynchronize() {
  default_stream().synchronize();
  return has_context() ? kSuccess : kInvalidContext;
}
STUB int cuMemFree_v2(Address address) {
  default_stream().synchronize();
  const std::lock_guard lock(state().mutex);
  const auto found = state().allocations.find(address);
  if (found == state().allocations.end()) return kInvalidValue;
  release(address, found->second);
  if (!found->second.created) state().freed[found->second.octets] = address;
  state().allocations.erase(found);
  return kSuccess;
}
STUB int cuMemHostAlloc(void** memory, std::size_t octets, unsigned) {
  *memory = mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return *memory == MAP_FAILED ? kOutOfMemory : add_pinned(*memory, octets);
}
STUB int cuMemHostRegister_v2(void* memory, std::size_t octets, unsigned) {
  return has_context() ? add_pinned(memory, octets) : kInvalidContext;
}
STUB int cuMemHostUnregister(void* memory) {
  if (!has_context()) return kInvalidContext;
  wait_at_gate();
  const std::lock_guard lock(state().mutex);
  return state().pinned.erase(reinterpret_cast<std::uintptr_t>(memory)) == 1 ? kSuccess : kInvalidValue;
}

STUB int cuPointerGetAttributes(unsigned count, int* attributes, void** values, Address address) {
  if (!state().initialized) return kNotInitialized;
  const bool known = own_view(address, 1) != nullptr;
  const bool pinned = is_pinned(address);
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == 2) *static_cast<unsigned*>(values[i]) = known ? 2 : pinned ? 1 : 0;
    if (attributes[i] == 7) {
      const std::lock_guard lock(state().mutex);
      const auto* const found = find_allocation(address);
      *static_cast<unsigned long long*>(values[i]) = found != nullptr ? found->second.id : 0;
    }
    if (attributes[i] == 9) *static_cast<int*>(values[i]) = known ? 0 : -2;
  }
  return kSuccess;
}
STUB int cuPointerSetAttribute(const void* value, int attribute, Address address) {
  if (!has_context()) return kInvalidContext;
  const std::lock_guard lock(state().mutex);
  auto after = state().allocations.upper_bound(address);
  if (attribute != 6 || after == state().allocations.begin()) return kInvalidValue;
  auto& [first, allocation] = *--after;
  if (address - first >= allocation.octets) return kInvalidValue;
  if (!allocation.plain) return kNotSupported;
  allocation.sync_memops = *static_cast<const unsigned*>(value) != 0;
  return kSuccess;
}
STUB int cuMemGetHandleForAddressRange(void* handle, Address address, std::size_t octets, int,
                                       unsigned long long) {
  if (own_view(address, octets) == nullptr) return kInvalidValue;
  *static_cast<int*>(handle) = memfd_create("stub-dmabuf", MFD_CLOEXEC);  // of no use to a mapping
  return kSuccess;
}

STUB int cuMemcpyHtoD_v2(Address to, const void* from, std::size_t octets) {
  if (!has_context()) return kInvalidContext;
  if (own_view(to, octets) == nullptr) return kInvalidValue;
  const auto* const first = static_cast<const std::uint8_t*>(from);
  default_stream().add([to, data = std::vector<std::uint8_t>(first, first + octets)] {
    if (std::uint8_t* const view = own_view(to, data.size())) std::memcpy(view, data.data(), data.size());
  });
  if (is_synchronous(to)) default_stream().synchronize();
  return kSuccess;
}
STUB int cuMemcpyDtoH_v2(void* to, Address from, std::size_t octets) {
  default_stream().synchronize();
  const std::uint8_t* const view = own_view(from, octets);
  if (!has_context() || view == nullptr) return has_context() ? kInvalidValue : kInvalidContext;
  std::memcpy(to, view, octets);
  return kSuccess;
}
STUB int cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t octets, Stream* stream) {
  if (!has_context()) return kInvalidContext;
  if (own_view(to, octets) == nullptr) return kInvalidValue;
  stream->add([=] {
    if (std::uint8_t* const view = own_view(to, octets)) std::memcpy(view, from, octets);
  });
  return kSuccess;
}
STUB int cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t octets, Stream* stream) {
  if (!has_context()) return kInvalidContext;
  if (own_view(from, octets) == nullptr) return kInvalidValue;
  stream->add([=] {
    if (const std::uint8_t* const view = own_view(from, octets)) std::memcpy(to, view, octets);
  });
  return kSuccess;
}

// Any direction; memory of the host must be pinned.
STUB int cuMemcpyAsync(Address to, Address from, std::size_t octets, Stream* stream) {
  if (!has_context()) return kInvalidContext;
  const auto view = [](Address address, std::size_t count) {
    if (std::uint8_t* const device = own_view(address, count)) return device;
    return is_pinned(address) && is_pinned(address + count - 1)
               ? reinterpret_cast<std::uint8_t*>(static_cast<std::uintptr_t>(address))
               : nullptr;
  };
  if (view(to, octets) == nullptr || view(from, octets) == nullptr) return kInvalidValue;
  const bool within = own_view(to, octets) != nullptr && own_view(from, octets) != nullptr;
  stream->add([=] {
    if (within) wait_at_gate();
    std::uint8_t* const target = view(to, octets);
    const std::uint8_t* const source = view(from, octets);
    if (target != nullptr && source != nullptr) std::memcpy(target, source, octets);
  });
  return kSuccess;
}
// The GPU reaches pinned memory at the address of the CPU.
STUB int cuMemHostGetDevicePointer_v2(Address* address, void* memory, unsigned) {
  *address = reinterpret_cast<std::uintptr_t>(memory);
  return is_pinned(*address) ? kSuccess : kInvalidValue;
}
STUB int cuStreamWriteValue32_v2(Stream* stream, Address to, std::uint32_t value, unsigned) {
  if (!has_context()) return kInvalidContext;
  if (!is_pinned(to)) return kInvalidValue;
  stream->add([=] {
    auto* const word = reinterpret_cast<std::uint32_t*>(static_cast<std::uintptr_t>(to));
    if (is_pinned(to)) __atomic_store_n(word, value, __ATOMIC_RELEASE);
  });
  return kSuccess;
}
STUB int cuStreamQuery(Stream* stream) {
  if (!has_context()) return kInvalidContext;
  const std::lock_guard lock(stream->mutex);
  return stream->work.empty() && !stream->busy ? kSuccess : kNotReady;
}

// ---- memory of other processes ----

struct IpcHandle {
  std::uint64_t pid, fd;
  std::uint8_t rest[48];
};

STUB int cuDeviceGetCount(int* count) {
  *count = 1;
  return kSuccess;
}
STUB int cuDeviceGetUuid(void* uuid, int) {
  std::memcpy(uuid, "stub device 0000", 16);
  return kSuccess;
}
STUB int cuMemGetAddressRange_v2(Address* first, std::size_t* octets, Address address) {
  const std::lock_guard lock(state().mutex);
  const auto* const found = find_allocation(address);
  if (found == nullptr) return kInvalidValue;
  *first = found->first;
  *octets = found->second.octets;
  return kSuccess;
}
STUB int cuIpcGetMemHandle(IpcHandle* handle, Address address) {
  const std::lock_guard lock(state().mutex);
  const auto* const found = find_allocation(address);
  if (found == nullptr || !found->second.plain) return kInvalidValue;
  *handle = {static_cast<std::uint64_t>(getpid()), static_cast<std::uint64_t>(found->second.fd), {}};
  return kSuccess;
}
// As the real one, it does not open memory of its own process.
STUB int cuIpcOpenMemHandle_v2(Address* address, IpcHandle handle, unsigned flags) {
  if (!has_context() || flags != 1) return kInvalidContext;
  if (handle.pid == static_cast<std::uint64_t>(getpid())) return kInvalidContext;
  const std::string path = "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  *address = 0;
  return fd < 0 ? kInvalidHandle : map_memory(address, fd, length_of(fd), false, false);
}
STUB int cuMemFree_v2(Address address);
STUB int cuIpcCloseMemHandle(Address address) {
  wait_at_gate();
  return cuMemFree_v2(address);
}

// An allocation handle is a descriptor plus one.
STUB int cuMemCreate(Address* handle, std::size_t octets, const void*, unsigned long long) {
  const int fd = create_file(octets);
  *handle = static_cast<Address>(fd) + 1;
  return fd < 0 ? kOutOfMemory : kSuccess;
}
STUB int cuMemRelease(Address handle) {
  return close(static_cast<int>(handle) - 1) == 0 ? kSuccess : kInvalidValue;
}
STUB int cuMemRetainAllocationHandle(Address* handle, void* memory) {
  const std::lock_guard lock(state().mutex);
  const auto* const found = find_allocation(reinterpret_cast<std::uintptr_t>(memory));
  if (found == nullptr || !found->second.created) return kInvalidValue;
  *handle = static_cast<Address>(fcntl(found->second.fd, F_DUPFD_CLOEXEC, 0)) + 1;
  return kSuccess;
}
STUB int cuMemExportToShareableHandle(int* fd, Address handle, int type, unsigned long long) {
  *fd = fcntl(static_cast<int>(handle) - 1, F_DUPFD_CLOEXEC, 0);
  return type == 1 && *fd >= 0 ? kSuccess : kInvalidValue;
}
STUB int cuMemImportFromShareableHandle(Address* handle, void* fd, int type) {
  const int own = fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(fd)), F_DUPFD_CLOEXEC, 0);
  *handle = static_cast<Address>(own) + 1;
  return type == 1 && own >= 0 ? kSuccess : kInvalidValue;
}
STUB int cuMemAddressReserve(Address* address, std::size_t octets, std::size_t, Address, unsigned long long) {
  void* const seen = mmap(nullptr, octets, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (seen == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<std::uintptr_t>(seen);
  return kSuccess;
}
STUB int cuMemAddressFree(Address address, std::size_t octets) {
  munmap(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), octets);
  return kSuccess;
}
STUB int cuMemMap(Address address, std::size_t octets, std::size_t skip, Address handle, unsigned long long) {
  const int fd = fcntl(static_cast<int>(handle) - 1, F_DUPFD_CLOEXEC, 0);
  if (fd < 0 || skip != 0 || octets > length_of(fd)) return kInvalidValue;
  return map_memory(&address, fd, octets, false, true);
}
STUB int cuMemUnmap(Address address, std::size_t) { return cuMemFree_v2(address); }
STUB int cuMemSetAccess(Address, std::size_t, const void*, std::size_t) { return kSuccess; }

STUB int cuStreamCreateWithPriority(Stream** stream, unsigned flags, int priority) {
  if (!has_context()) return kInvalidContext;
  if (flags != 1 || priority != -5) return kInvalidValue;  // non-blocking, the highest priority
  *stream = new Stream;
  const std::lock_guard lock(state().mutex);
  state().handles.insert(*stream);
  return kSuccess;
}
STUB int cuStreamDestroy_v2(Stream* stream) {
  {
    const std::lock_guard lock(state().mutex);
    state().handles.erase(stream);
  }
  delete stream;
  return kSuccess;
}
STUB int cuEventCreate(Event** event, unsigned) {
  if (!has_context()) return kInvalidContext;
  *event = new Event;
  const std::lock_guard lock(state().mutex);
  state().handles.insert(*event);
  return kSuccess;
}
STUB int cuEventDestroy_v2(Event* event) {
  {
    const std::lock_guard lock(state().mutex);
    state().handles.erase(event);
  }
  delete event;
  return kSuccess;
}
STUB int cuEventRecord(Event* event, Stream* stream) {
  if (!has_context()) return kInvalidContext;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(event->mutex);
    number = ++event->recorded;
  }
  stream->add([=] {
    const std::lock_guard lock(event->mutex);
    event->reached = number;
  });
  return kSuccess;
}
STUB int cuEventQuery(Event* event) {
  if (!has_context()) return kInvalidContext;
  const std::lock_guard lock(event->mutex);
  return event->reached == event->recorded ? kSuccess : kNotReady;
}
