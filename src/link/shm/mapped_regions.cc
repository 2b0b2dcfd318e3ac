#include "link/shm/mapped_regions.h"

#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/close_elsewhere.h"
#include "base/owned_fd.h"
#include "objects/memory.h"

namespace rrdma::link {
namespace {

// Only files in memory have seals. To ask a file of another kind for more may wait for whoever serves it.
bool is_in_memory(int fd) {
  struct stat about;
  return raw::fcntl(fd, F_GET_SEALS) >= 0 && ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

// Borrows the descriptor instead of reopening the file: we must not write what the other process may not
// write.
OwnedFd borrow_memory_file(pid_t pid, int number) {
  const OwnedFd process = lifted(raw::pidfd_open(pid, 0));
  if (!process) return OwnedFd();
  const int file = raw::pidfd_getfd(process.get(), number);
  if (file < 0 || is_in_memory(file)) return lifted(file);
  close_elsewhere(OwnedFd(file));
  return OwnedFd();
}

// hugetlbfs maps whole huge pages.
std::uint64_t page_of(int fd) {
  struct statfs system;
  return ::syscall(SYS_fstatfs, fd, &system) == 0 && system.f_type == HUGETLBFS_MAGIC
             ? static_cast<std::uint64_t>(system.f_bsize)
             : static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

bool is_as_long(int fd, std::uint64_t octets) {
  struct stat about;
  return ::fstat(fd, &about) == 0 && static_cast<std::uint64_t>(about.st_size) >= octets;
}

}  // namespace

MappedRegions::~MappedRegions() {
  for (Region& region : regions_) release(region);
}

void MappedRegions::release(Region& region) {
  if (region.mapping != nullptr) ::munmap(region.mapping, region.octets);
  region.mapping = nullptr;
  region.first = nullptr;
}

void MappedRegions::map(Region& region, const Found<DirectKey>& key) {
  release(region);
  // Release mappings whose owner has revoked them, so that they do not keep the pages alive.
  for (Region& other : regions_) {
    if (other.mapping != nullptr && other.sequence->load(std::memory_order_acquire) != other.seen)
      release(other);
  }
  region.sequence = key.sequence;
  region.seen = key.seen;
  const DirectKey& value = key.value;
  if (value.length > value.file_offset + value.length) return;
  const bool writes = (value.access & (objects::kRemoteWrite | objects::kRemoteAtomic)) != 0;
  const OwnedFd file = borrow_memory_file(pid_, static_cast<int>(value.file - 1));
  if (!file || !is_as_long(file.get(), value.file_offset + value.length)) return;
  const std::uint64_t page = page_of(file.get());
  const std::uint64_t begin = value.file_offset / page * page;
  const std::uint64_t end = (value.file_offset + value.length + page - 1) / page * page;
  void* const mapping = ::mmap(nullptr, end - begin, writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
                               file.get(), static_cast<off_t>(begin));
  if (mapping == MAP_FAILED) return;
  ::madvise(mapping, end - begin, MADV_DONTFORK);
  region.mapping = mapping;
  region.octets = end - begin;
  region.address = value.address;
  region.length = value.length;
  region.first = static_cast<std::uint8_t*>(mapping) + (value.file_offset - begin);
}

}  // namespace rrdma::link
