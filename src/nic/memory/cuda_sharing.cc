#include "nic/memory/cuda_sharing.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "base/close_elsewhere.h"
#include "base/owned_fd.h"
#include "base/raw_syscall.h"
#include "nic/memory/deferred_release.h"
#include "objects/memory_kind.h"

namespace rrdma::nic {
namespace {

using objects::FarCopy;

constexpr int kLooksAtOnce = 400;  // 100 us

void nap() {
  const timespec time{.tv_sec = 0, .tv_nsec = 100'000};
  (void)raw::ppoll(nullptr, 0, &time);
}

constexpr std::uint32_t kMagic = 0x61647563;  // "cuda"
enum class Way : std::uint32_t { kIpc = 1, kDescriptor = 2 };

// The contents of a FarDescription.
struct Form {
  std::uint32_t magic = kMagic;
  Way way = Way::kIpc;
  std::int32_t fd = -1;  // of the owner
  std::uint32_t reserved = 0;
  std::uint64_t skip = 0;    // the region begins this far behind the start of the allocation
  std::uint64_t octets = 0;  // of the allocation
  CudaUuid uuid{};           // of the device
  CudaIpcHandle ipc{};
};
static_assert(sizeof(Form) <= sizeof(objects::FarDescription));

bool has_sharing(const CudaLibrary& cuda) { return cuda.sharing; }

unsigned long long buffer_id(const CudaLibrary& cuda, std::uint64_t address) {
  unsigned long long id = 0;
  int attributes[] = {kCudaAttributeBufferId};
  void* values[] = {&id};
  return cuda.cuPointerGetAttributes(1, attributes, values, address) == kCudaSuccess ? id : 0;
}

class Export final : public objects::FarExport {
 public:
  Export(const CudaPrimary& primary, std::uint64_t address, const Form& form, OwnedFd fd)
      : cuda_(primary.cuda()),
        device_(primary.ordinal()),
        address_(address),
        id_(buffer_id(cuda_, address)),
        fd_(std::move(fd)) {
    std::memcpy(description_.data(), &form, sizeof form);
  }
  [[nodiscard]] bool is_there() const override {
    return cuda_device_of(cuda_, address_) == device_ && buffer_id(cuda_, address_) == id_;
  }

 private:
  const CudaLibrary& cuda_;
  const int device_;
  const std::uint64_t address_;
  const unsigned long long id_;
  const OwnedFd fd_;  // peers borrow it
};

OwnedFd export_descriptor(const CudaLibrary& cuda, std::uint64_t address) {
  CudaAllocation allocation = 0;
  if (cuda.cuMemRetainAllocationHandle(&allocation, reinterpret_cast<void*>(address)) != kCudaSuccess)
    return OwnedFd();
  int fd = -1;
  const CudaResult result = cuda.cuMemExportToShareableHandle(&fd, allocation, kCudaHandlePosixFd, 0);
  (void)cuda.cuMemRelease(allocation);
  return result == kCudaSuccess ? lifted(fd) : OwnedFd();
}

// Not lifted, which would close the first descriptor: the owner may have named any file.
OwnedFd borrow_descriptor(pid_t owner, int number) {
  const OwnedFd process = lifted(raw::pidfd_open(owner, 0));
  return process ? OwnedFd(raw::pidfd_getfd(process.get(), number)) : OwnedFd();
}

// Maps the allocation behind a descriptor. 0 on failure.
CudaAddress map_descriptor(const CudaLibrary& cuda, int ordinal, const OwnedFd& fd, std::uint64_t octets) {
  CudaAllocation allocation = 0;
  if (cuda.cuMemImportFromShareableHandle(&allocation,
                                          reinterpret_cast<void*>(static_cast<std::intptr_t>(fd.get())),
                                          kCudaHandlePosixFd) != kCudaSuccess)
    return 0;
  CudaAddress at = 0;
  const CudaAccess access{.location_type = kCudaLocationDevice, .device = ordinal, .flags = kCudaReadWrite};
  bool mapped = false;
  if (cuda.cuMemAddressReserve(&at, octets, 0, 0, 0) == kCudaSuccess) {
    mapped = cuda.cuMemMap(at, octets, 0, allocation, 0) == kCudaSuccess;
    if (mapped && cuda.cuMemSetAccess(at, octets, &access, 1) != kCudaSuccess) {
      (void)cuda.cuMemUnmap(at, octets);
      mapped = false;
    }
    if (!mapped) (void)cuda.cuMemAddressFree(at, octets);
  }
  (void)cuda.cuMemRelease(allocation);
  return mapped ? at : 0;
}

// The length of the widest aligned word that ends the message, which programs may spin on.
std::size_t last_word(std::uint64_t end, std::uint64_t octets) {
  for (const std::size_t word : {8u, 4u, 2u}) {
    if (end % word == 0 && octets >= word) return word;
  }
  return 1;
}

// Memory of the host that is to be unpinned. Any thread.
class Leaving {
 public:
  void add(std::uint64_t first, std::uint64_t octets) {
    const std::lock_guard lock(mutex_);
    ranges_.push_back({first, octets});
    count_.store(ranges_.size(), std::memory_order_relaxed);
  }
  void remove(std::uint64_t first) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(ranges_.begin(), ranges_.end(),
                                    [&](const Range& range) { return range.first == first; });
    if (found != ranges_.end()) ranges_.erase(found);
    count_.store(ranges_.size(), std::memory_order_relaxed);
  }
  [[nodiscard]] bool has(std::uint64_t first, std::uint64_t octets) {
    if (count_.load(std::memory_order_relaxed) == 0) return false;
    const std::lock_guard lock(mutex_);
    return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
      return first < range.first + range.octets && range.first < first + octets;
    });
  }

 private:
  struct Range {
    std::uint64_t first, octets;
  };
  std::mutex mutex_;
  std::vector<Range> ranges_;
  std::atomic<std::size_t> count_{0};
};

// Never destroyed: releases may run after main().
Leaving& leaving() {
  static Leaving* const one = new Leaving;
  return *one;
}

unsigned memory_type(const CudaLibrary& cuda, std::uint64_t address) {
  unsigned type = 0;
  int attributes[] = {kCudaAttributeMemoryType};
  void* values[] = {&type};
  return cuda.cuPointerGetAttributes(1, attributes, values, address) == kCudaSuccess ? type : 0;
}

}  // namespace

// Smaller allocations of cuMemAlloc share a page of the device with others. A peer that has the page open
// would still reach it after the program freed its part, and another allocation got it: seen on an H200.
constexpr std::size_t kOwnPagesOctets = 2 << 20;

std::unique_ptr<objects::FarExport> export_cuda_memory(const CudaPrimary& primary, std::uint64_t address,
                                                       std::uint64_t length) {
  const CudaLibrary& cuda = primary.cuda();
  const CudaPrimary::Current current(primary);
  if (!has_sharing(cuda) || !current) return nullptr;
  CudaAddress base = 0;
  std::size_t octets = 0;
  Form form;
  CudaDevice device = 0;
  if (cuda.cuMemGetAddressRange(&base, &octets, address) != kCudaSuccess ||
      cuda.cuDeviceGet(&device, primary.ordinal()) != kCudaSuccess ||
      cuda.cuDeviceGetUuid(&form.uuid, device) != kCudaSuccess)
    return nullptr;
  form.skip = address - base;
  form.octets = octets;
  if (form.skip > octets || length > octets - form.skip) return nullptr;
  OwnedFd fd;
  if (octets < kOwnPagesOctets || cuda.cuIpcGetMemHandle(&form.ipc, base) != kCudaSuccess) {
    fd = export_descriptor(cuda, base);
    if (!fd) return nullptr;
    form.way = Way::kDescriptor;
    form.fd = fd.get();
  }
  return std::make_unique<Export>(primary, address, form, std::move(fd));
}

class CudaCopier::Mapping final : public objects::FarMapping {
 public:
  Mapping(CudaCopier& copier, Device& device, const Form& form, CudaAddress base)
      : copier_(copier), device_(device), form_(form), base_(base) {}
  // A copy may go on: cuMemUnmap does not wait for it.
  ~Mapping() override {
    release_later([primary = device_.primary, mark = mark_, goes_on = goes_on_, way = form_.way, base = base_,
                   octets = form_.octets] {
      const CudaLibrary& cuda = primary->cuda();
      const CudaPrimary::Current current(*primary);
      if (!current) return;  // it went with the context
      while (goes_on && cuda.cuEventQuery(mark) == kCudaNotReady) nap();
      if (mark != nullptr) (void)cuda.cuEventDestroy(mark);
      if (way == Way::kIpc) {
        (void)cuda.cuIpcCloseMemHandle(base);
        return;
      }
      (void)cuda.cuMemUnmap(base, octets);
      (void)cuda.cuMemAddressFree(base, octets);
    });
  }

  [[nodiscard]] std::uint64_t length() const override { return form_.octets - form_.skip; }

  FarCopy write(std::uint64_t at, std::span<const objects::PayloadSpan> from) override {
    const CudaPrimary::Current current(*device_.primary);
    if (!current) return become_stale();
    std::uint64_t octets = 0;
    for (const auto& span : from) {
      if (!copier_.is_reachable(device_, span.data, span.length)) return FarCopy::kFailed;
      octets += span.length;
    }
    CudaAddress to = base_ + form_.skip + at;
    const CudaAddress body_end = to + octets - last_word(to + octets, octets);
    for (const auto& span : from) {
      const auto data = reinterpret_cast<std::uintptr_t>(span.data);
      const std::size_t body = to < body_end ? std::min<std::size_t>(span.length, body_end - to) : 0;
      if ((body != 0 && !copier_.copy(device_, to, data, body)) ||
          (body != span.length && !copier_.copy(device_, to + body, data + body, span.length - body))) {
        (void)wait(device_);
        return FarCopy::kFailed;
      }
      to += span.length;
    }
    return finish();
  }

  FarCopy read(std::uint64_t at, std::span<const objects::MutableSpan> into) override {
    const CudaPrimary::Current current(*device_.primary);
    if (!current) return become_stale();
    for (const auto& span : into) {
      if (!copier_.is_reachable(device_, span.data, span.length)) return FarCopy::kFailed;
    }
    CudaAddress from = base_ + form_.skip + at;
    for (const auto& span : into) {
      if (!copier_.copy(device_, reinterpret_cast<std::uintptr_t>(span.data), from, span.length)) {
        (void)wait(device_);
        return FarCopy::kFailed;
      }
      from += span.length;
    }
    return finish();
  }

  FarCopy resume() override {
    const CudaPrimary::Current current(*device_.primary);
    const CudaResult result = current ? device_.primary->cuda().cuEventQuery(mark_) : -1;
    if (result == kCudaNotReady) return FarCopy::kGoesOn;
    goes_on_ = false;
    return result == kCudaSuccess ? FarCopy::kDone : FarCopy::kFailed;
  }

  [[nodiscard]] bool is_stale() const override { return stale_; }

 private:
  FarCopy become_stale() {
    stale_ = true;
    return FarCopy::kStale;
  }
  FarCopy finish() {
    const FarCopy copy = CudaCopier::finish(device_, mark_);
    goes_on_ = copy == FarCopy::kGoesOn;
    return copy;
  }

  CudaCopier& copier_;
  Device& device_;
  const Form form_;
  const CudaAddress base_;
  CudaEvent mark_ = nullptr;  // of a copy that took long
  bool goes_on_ = false;
  bool stale_ = false;
};

CudaCopier::~CudaCopier() {
  for (const auto& [key, pin] : pins_) unpin(pin);
  for (const auto& device : devices_) {
    const CudaPrimary::Current current(*device->primary);
    if (current && device->stream != nullptr) (void)device->primary->cuda().cuStreamDestroy(device->stream);
    release_later([primary = device->primary, signal = device->signal]() mutable {
      const CudaPrimary::Current still(*primary);
      signal.close(primary->cuda());
    });
  }
}

// Never creates a context: a program that does not use the device has no memory to spare on it.
CudaCopier::Device* CudaCopier::device_of(const std::uint8_t* uuid) {
  const CudaLibrary* const cuda = CudaLibrary::find();
  int count = 0;
  if (cuda == nullptr || !has_sharing(*cuda) || cuda->cuDeviceGetCount(&count) != kCudaSuccess)
    return nullptr;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CudaDevice device = 0;
    CudaUuid found{};
    if (cuda->cuDeviceGet(&device, ordinal) == kCudaSuccess &&
        cuda->cuDeviceGetUuid(&found, device) == kCudaSuccess &&
        std::memcmp(found.octets, uuid, sizeof found.octets) == 0)
      return open_device(*cuda, ordinal);
  }
  return nullptr;
}

CudaCopier::Device* CudaCopier::open_device(const CudaLibrary& cuda, int ordinal) {
  for (const auto& known : devices_) {
    if (known->primary->ordinal() == ordinal && known->primary->is_alive()) return known.get();
  }
  CudaDevice device = 0;
  unsigned flags = 0;
  int active = 0;
  if (cuda.cuDeviceGet(&device, ordinal) != kCudaSuccess ||
      cuda.cuDevicePrimaryCtxGetState(device, &flags, &active) != kCudaSuccess || active == 0)
    return nullptr;
  auto opened = std::make_unique<Device>();
  opened->primary = std::make_shared<CudaPrimary>(cuda, ordinal);
  if (!opened->primary->retain()) return nullptr;
  const CudaPrimary::Current current(*opened->primary);
  if (!current) return nullptr;
  opened->stream = opened->primary->create_stream();
  if (opened->stream == nullptr) return nullptr;
  opened->signal.open(cuda);
  devices_.push_back(std::move(opened));
  return devices_.back().get();
}

void CudaCopier::on_region_opened(const objects::MemoryRegion& region) {
  const CudaLibrary* const cuda = region.kind != 0 ? CudaLibrary::find() : nullptr;
  if (cuda == nullptr || !has_sharing(*cuda)) return;
  const int ordinal = cuda_device_of(*cuda, reinterpret_cast<std::uintptr_t>(region.host));
  if (ordinal >= 0) (void)open_device(*cuda, ordinal);
}

std::unique_ptr<objects::FarMapping> CudaCopier::open(const objects::FarDescription& description,
                                                      pid_t owner) {
  Form form;
  std::memcpy(&form, description.data(), sizeof form);
  if (form.magic != kMagic || form.skip > form.octets) return nullptr;
  Device* const device = device_of(form.uuid.octets);
  if (device == nullptr) return nullptr;
  const CudaLibrary& cuda = device->primary->cuda();
  const CudaPrimary::Current current(*device->primary);
  if (!current) return nullptr;
  CudaAddress base = 0;
  if (form.way == Way::kIpc) {
    if (cuda.cuIpcOpenMemHandle(&base, form.ipc, kCudaIpcLazyPeerAccess) != kCudaSuccess) return nullptr;
  } else {
    OwnedFd fd = borrow_descriptor(owner, form.fd);
    if (fd) base = map_descriptor(cuda, device->primary->ordinal(), fd, form.octets);
    close_elsewhere(std::move(fd));
    if (base == 0) return nullptr;
  }
  auto mapping = std::make_unique<Mapping>(*this, *device, form, base);
  // The owner may lie about the length.
  CudaAddress first = 0;
  std::size_t octets = 0;
  if (cuda.cuMemGetAddressRange(&first, &octets, base) != kCudaSuccess || first > base ||
      octets - (base - first) < form.octets)
    return nullptr;
  return mapping;
}

// The driver takes a freed address for one of the CPU's, and would touch it.
bool CudaCopier::is_reachable(const Device& device, const std::uint8_t* data, std::size_t octets) {
  if (octets == 0) return true;
  const CudaLibrary& cuda = device.primary->cuda();
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  if (leaving().has(first, octets)) return false;
  const auto is_pinned = [&](std::uint64_t address) {
    const unsigned type = memory_type(cuda, address);
    return type != 0 && type != kCudaMemoryDevice;
  };
  const auto known = [&] {
    return is_as_registered(first, octets) ||
           (is_pinned(first) && (octets == 1 || is_pinned(first + octets - 1)));
  };
  return known() || (pin(device, data, octets) && known());
}

bool CudaCopier::is_as_registered(std::uint64_t address, std::uint64_t octets) const {
  for (std::uint8_t number = 1;; ++number) {
    const objects::MemoryKind* const kind = table_.kind(number);
    if (kind == nullptr || kind->holds(address, octets)) return kind != nullptr;
  }
}

bool CudaCopier::pin(const Device& device, const std::uint8_t* data, std::size_t octets) {
  const objects::MemoryRegion* const region = table_.find_region_of(data, octets);
  if (region == nullptr || region->kind != 0) return false;
  const auto [place, fresh] = pins_.try_emplace(region->key);
  // Pinned or not, it did not help, unless the device was reset since.
  if (!fresh && (place->second.memory == nullptr || place->second.primary->is_alive())) return false;
  if (device.primary->cuda().cuMemHostRegister(region->host, region->length, kCudaHostRegisterPortable) !=
      kCudaSuccess)
    return false;
  place->second = {region->host, region->length, device.primary};
  return true;
}

// cuMemHostUnregister waits for kernels. Until then the pages are not those of the address, if the program
// gave the memory back and got other memory there.
void CudaCopier::unpin(const Pin& pin) {
  if (pin.memory == nullptr) return;
  const auto first = reinterpret_cast<std::uintptr_t>(pin.memory);
  leaving().add(first, pin.octets);
  release_later([pin, first] {
    const CudaPrimary::Current current(*pin.primary);
    if (current) (void)pin.primary->cuda().cuMemHostUnregister(pin.memory);
    leaving().remove(first);
  });
}

// The program may give the memory back after this, and cuMemUnmap does not wait for copies.
void CudaCopier::on_region_closed(const objects::MemoryRegion& region) {
  if (region.kind != 0) {
    for (const auto& device : devices_) {
      const CudaPrimary::Current current(*device->primary);
      if (current) (void)wait(*device);
    }
  }
  if (pins_.empty()) return;
  const auto found = pins_.find(region.key);
  if (found == pins_.end()) return;
  unpin(found->second);
  pins_.erase(found);
}

bool CudaCopier::copy(const Device& device, CudaAddress to, CudaAddress from, std::size_t octets) const {
  return octets == 0 || device.primary->cuda().cuMemcpyAsync(to, from, octets, device.stream) == kCudaSuccess;
}

bool CudaCopier::wait(const Device& device) {
  constexpr int kNapsMax = 20'000;  // two seconds
  for (int looks = 0; looks < kLooksAtOnce + kNapsMax; ++looks) {
    const CudaResult result = device.primary->cuda().cuStreamQuery(device.stream);
    if (result != kCudaNotReady) return result == kCudaSuccess;
    if (looks >= kLooksAtOnce) nap();
  }
  return false;
}

objects::FarCopy CudaCopier::finish(Device& device, CudaEvent& mark) {
  const CudaLibrary& cuda = device.primary->cuda();
  const bool signals = device.signal.send(cuda, device.stream);
  if (signals && device.signal.wait()) return FarCopy::kDone;
  for (int looks = signals ? kLooksAtOnce - 1 : 0; looks < kLooksAtOnce; ++looks) {
    const CudaResult result = cuda.cuStreamQuery(device.stream);
    if (result == kCudaSuccess) return FarCopy::kDone;
    if (result != kCudaNotReady) return FarCopy::kFailed;
  }
  const bool marked = (mark != nullptr || cuda.cuEventCreate(&mark, kCudaEventNoTiming) == kCudaSuccess) &&
                      cuda.cuEventRecord(mark, device.stream) == kCudaSuccess;
  if (marked) return FarCopy::kGoesOn;
  return wait(device) ? FarCopy::kDone : FarCopy::kFailed;
}

}  // namespace rrdma::nic
