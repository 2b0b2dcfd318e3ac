#include "host/memory/shared_files.h"

#include <dirent.h>
#include <linux/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace rrdma::host {
namespace {

// Reading the whole map of a large program takes as long as registering some of its memory; skip it for small
// pieces.
constexpr std::size_t kWorthReadingAll = 64 * 1024;

// Declared in <linux/fs.h> since Linux 6.11.
struct MapQuery {
  std::uint64_t size = sizeof(MapQuery);
  std::uint64_t wanted = 0;
  std::uint64_t address = 0;
  std::uint64_t start = 0, end = 0, flags = 0, page_size = 0, offset = 0, inode = 0;
  std::uint32_t major = 0, minor = 0;
  std::uint32_t name_size = 0, build_id_size = 0;
  std::uint64_t name = 0, build_id = 0;
};
constexpr unsigned long kProcMapQuery = _IOWR('f', 17, MapQuery);
constexpr std::uint64_t kSharedMapping = 0x08;

// One line of the map: [start, end) at `offset` in a file.
struct Mapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

enum class Answer : std::uint8_t { kShared, kNot, kCannotTell };

Answer ask_kernel(int maps, std::uint64_t address, Mapping& mapping) {
  MapQuery query;
  query.address = address;
  if (::syscall(SYS_ioctl, maps, kProcMapQuery, &query) != 0)
    return errno == ENOENT ? Answer::kNot : Answer::kCannotTell;
  mapping = {query.start, query.end, query.offset, ::makedev(query.major, query.minor), query.inode};
  return (query.flags & kSharedMapping) != 0 && query.inode != 0 ? Answer::kShared : Answer::kNot;
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 16384> part;
  for (ssize_t got; (got = raw::read(fd, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  return text;
}

// "7f00000-7f10000 rw-s 00000000 00:01 1034   /memfd:name (deleted)"
bool parse_line(const std::string& line, Mapping& mapping, bool& shared) {
  unsigned long start = 0, end = 0, offset = 0, inode = 0;
  unsigned major = 0, minor = 0;
  char rights[5] = {};
  if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx %x:%x %lu", &start, &end, rights, &offset, &major, &minor,
                  &inode) != 7)
    return false;
  mapping = {start, end, offset, ::makedev(major, minor), inode};
  shared = rights[3] == 's' && inode != 0;
  return true;
}

Answer read_map(std::uint64_t address, Mapping& mapping) {
  const OwnedFd maps = lifted(raw::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (!maps) return Answer::kCannotTell;
  const std::string text = read_all(maps.get());
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t newline = std::min(text.find('\n', begin), text.size());
    bool shared = false;
    if (parse_line(text.substr(begin, newline - begin), mapping, shared) && address < mapping.end)
      return address >= mapping.start && shared ? Answer::kShared : Answer::kNot;
    begin = newline + 1;
  }
  return Answer::kNot;
}

bool is_file(int fd, dev_t device, ino_t inode) {
  struct stat about;
  return ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_dev == device &&
         about.st_ino == inode;
}

// A descriptor of this process for the file; -1 if there is none.
int find_descriptor(dev_t device, ino_t inode) {
  const OwnedFd folder = lifted(raw::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return -1;
  struct Entry {
    std::uint64_t inode;
    std::int64_t offset;
    std::uint16_t size;
    std::uint8_t type;
    char name[1];
  };
  alignas(8) std::array<char, 4096> part;
  for (long got; (got = ::syscall(SYS_getdents64, folder.get(), part.data(), part.size())) > 0;) {
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const Entry*>(part.data() + at);
      const std::string_view name(entry->name);
      int fd = -1;
      std::from_chars(name.data(), name.data() + name.size(), fd);
      if (fd >= 0 && is_file(fd, device, inode)) return fd;
      at += entry->size;
    }
  }
  return -1;
}

}  // namespace

SharedFiles::File* SharedFiles::open_file(dev_t device, ino_t inode) {
  for (File& file : files_) {
    if (file.device == device && file.inode == inode) return &file;
  }
  const int theirs = find_descriptor(device, inode);
  if (theirs < 0) return nullptr;
  OwnedFd own = lifted(raw::fcntl(theirs, F_DUPFD_CLOEXEC, 3));
  if (!own || !is_file(own.get(), device, inode)) return nullptr;  // another thread may have closed it
  own.close_at_fork();
  return &files_.emplace_back(File{device, inode, std::move(own)});
}

std::optional<SharedFiles::Place> SharedFiles::find(const void* at, std::size_t length) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  Mapping mapping;
  Answer answer = Answer::kCannotTell;
  if (asks_kernel_) {
    if (!maps_) {
      maps_ = lifted(raw::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
      maps_.close_at_fork();
    }
    answer = ask_kernel(maps_.get(), address, mapping);
    asks_kernel_ = answer != Answer::kCannotTell;
  }
  if (answer == Answer::kCannotTell && length >= kWorthReadingAll) answer = read_map(address, mapping);
  if (answer != Answer::kShared || length > mapping.end - address) return std::nullopt;
  File* const file = open_file(mapping.device, mapping.inode);
  if (file == nullptr) return std::nullopt;
  ++file->places;
  return Place{file->fd.get(), mapping.offset + (address - mapping.start)};
}

void SharedFiles::let_go(const Place& place) {
  const auto file =
      std::find_if(files_.begin(), files_.end(), [&](const File& f) { return f.fd.get() == place.fd; });
  if (file != files_.end() && --file->places == 0) files_.erase(file);
}

}  // namespace rrdma::host
