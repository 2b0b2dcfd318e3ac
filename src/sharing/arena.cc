#include "sharing/arena.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/file_space.h"

namespace rrdma::sharing {
namespace {

constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

std::size_t page() {
  static const auto octets = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return octets;
}

// Raw system calls: the C library's mmap and munmap may be the hooks that call us.
void* map(void* at, std::size_t octets, int rights, int flags, int fd, std::uint64_t offset) {
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, octets, rights, flags, fd, offset));
}
void unmap(void* at, std::size_t octets) { ::syscall(SYS_munmap, at, octets); }

std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

}  // namespace

Arena::~Arena() {
  if (base_ != nullptr) unmap(base_, octets_);
}

bool Arena::open(std::size_t octets) {
  file_ = lifted(raw::memfd_create("rrdma-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file_ || !set_length(file_.get(), static_cast<std::int64_t>(octets))) return false;
  // Processes that map the file can rely on its length.
  if (raw::fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return false;
  struct stat about;
  if (::fstat(file_.get(), &about) != 0) return false;
  void* const base = map(nullptr, octets, PROT_NONE, kReserved, -1, 0);
  if (base == MAP_FAILED) return false;
  inode_ = about.st_ino;
  base_ = static_cast<std::uint8_t*>(base);
  octets_ = octets;
  free_.emplace(0, octets);
  return true;
}

// A program may close every descriptor that it did not open, and then open another file.
bool Arena::is_our_file() const {
  struct stat about;
  return file_.valid() && ::fstat(file_.get(), &about) == 0 && about.st_ino == inode_ &&
         about.st_size == static_cast<off_t>(octets_);
}

// Aligns addresses, not offsets.
std::optional<std::uint64_t> Arena::find_free(std::size_t octets, std::size_t alignment) const {
  const auto base = reinterpret_cast<std::uintptr_t>(base_);
  for (const auto& [offset, length] : free_) {
    const std::uint64_t start = round_up(base + offset, alignment) - base;
    if (start - offset <= length && octets <= length - (start - offset)) return start;
  }
  return std::nullopt;
}

void Arena::occupy(std::uint64_t offset, std::size_t octets) {
  const auto around = std::prev(free_.upper_bound(offset));
  const std::uint64_t begin = around->first, end = begin + around->second;
  free_.erase(around);
  if (begin != offset) free_.emplace(begin, offset - begin);
  if (end != offset + octets) free_.emplace(offset + octets, end - offset - octets);
}

void Arena::vacate(std::uint64_t offset, std::size_t octets) {
  auto next = free_.lower_bound(offset);
  std::uint64_t begin = offset, end = offset + octets;
  if (next != free_.end() && next->first == end) {
    end += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      begin = before->first;
      free_.erase(before);
    }
  }
  free_.emplace(begin, end - begin);
}

void* Arena::take(std::size_t octets, std::size_t alignment) {
  if (octets == 0 || octets > octets_ || !is_our_file()) return nullptr;
  octets = round_up(octets, page());
  const auto offset = find_free(octets, std::max(alignment, page()));
  if (!offset) return nullptr;
  std::uint8_t* const at = base_ + *offset;
  if (map(at, octets, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_.get(), *offset) == MAP_FAILED)
    return nullptr;
  occupy(*offset, octets);
  taken_.emplace(*offset, octets);
  return at;
}

std::size_t Arena::length_at(const void* at) const {
  const auto found = taken_.find(offset_of(at));
  return found == taken_.end() ? 0 : found->second;
}

bool Arena::give_back(void* at) {
  const std::size_t octets = length_at(at);
  if (octets == 0) return false;
  give_back(at, octets);
  return true;
}

// The rest of an allocation stays allocated, as with munmap.
void Arena::give_back(void* at, std::size_t octets) {
  const std::uint64_t begin = offset_of(at);
  const std::uint64_t end = std::min<std::uint64_t>(begin + round_up(octets, page()), octets_);
  auto piece = taken_.upper_bound(begin);
  if (piece != taken_.begin()) --piece;
  while (piece != taken_.end() && piece->first < end) {
    const std::uint64_t from = piece->first, to = from + piece->second;
    const std::uint64_t cut_from = std::max(from, begin), cut_to = std::min(to, end);
    if (cut_from >= cut_to) {
      ++piece;
      continue;
    }
    piece = taken_.erase(piece);
    if (from < cut_from) taken_.emplace(from, cut_from - from);
    if (cut_to < to) taken_.emplace(cut_to, to - cut_to);
    clear(base_ + cut_from, cut_to - cut_from);
    map(base_ + cut_from, cut_to - cut_from, PROT_NONE, kReserved | MAP_FIXED, -1, 0);
    vacate(cut_from, cut_to - cut_from);
  }
}

bool Arena::clear(void* at, std::size_t octets) {
  if (!file_.valid()) return ::syscall(SYS_madvise, at, octets, MADV_DONTNEED) == 0;
  return is_our_file() && ::syscall(SYS_fallocate, file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                    offset_of(at), octets) == 0;
}

// Copies only the data in the file: a page that was never touched costs nothing here either.
bool Arena::copy_privately(std::uint64_t offset, std::size_t octets) const {
  void* const copy = map(nullptr, octets, PROT_READ | PROT_WRITE, kReserved, -1, 0);
  if (copy == MAP_FAILED) return false;
  const auto end = static_cast<off_t>(offset + octets);
  auto at = static_cast<off_t>(offset);
  while (at < end) {
    const off_t data = ::lseek(file_.get(), at, SEEK_DATA);
    if (data < 0 || data >= end) break;
    const off_t hole = std::min<off_t>(::lseek(file_.get(), data, SEEK_HOLE), end);
    for (at = data; at < hole;) {
      const auto skip = static_cast<std::size_t>(at) - offset;
      const ssize_t got = ::pread(file_.get(), static_cast<std::uint8_t*>(copy) + skip,
                                  static_cast<std::size_t>(hole - at), at);
      if (got <= 0) return false;
      at += got;
    }
  }
  return ::syscall(SYS_mremap, copy, octets, octets, MREMAP_MAYMOVE | MREMAP_FIXED, base_ + offset) ==
         reinterpret_cast<long>(base_ + offset);
}

bool Arena::become_private() {
  bool whole = is_our_file() || taken_.empty();
  for (const auto& [offset, octets] : taken_) whole = whole && copy_privately(offset, octets);
  file_.reset();
  return whole;
}

}  // namespace rrdma::sharing
