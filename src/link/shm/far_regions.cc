#include "link/shm/far_regions.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

namespace rrdma::link {
namespace {

// The description lies in the owner's memory: a row has no room for it.
bool read_description(pid_t pid, std::uint64_t address, objects::FarDescription& description) {
  const iovec local{description.data(), description.size()};
  const iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), description.size()};
  return ::syscall(SYS_process_vm_readv, pid, &local, 1UL, &remote, 1UL, 0UL) ==
         static_cast<long>(description.size());
}

}  // namespace

void FarRegions::open(Region& region, const Found<DirectKey>& key) {
  region.mapping.reset();
  // Close regions whose owner has revoked them, so that they do not keep the memory alive.
  for (Region& other : regions_) {
    if (other.mapping != nullptr && other.sequence->load(std::memory_order_acquire) != other.seen)
      other.mapping.reset();
  }
  region.sequence = key.sequence;
  region.seen = key.seen;
  region.address = key.value.address;
  region.length = 0;
  objects::FarDescription description;
  if (!read_description(pid_, key.value.file_offset, description) || !key.holds()) return;
  region.mapping = copier_->open(description, pid_);
  if (region.mapping != nullptr) region.length = std::min(key.value.length, region.mapping->length());
}

}  // namespace rrdma::link
