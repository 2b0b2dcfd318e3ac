// Functions of newer C libraries that the compiler's runtime inside our programs and libraries needs.
// Defining them here, hidden, lets the products load with older C libraries: glibc 2.35 (Ubuntu 22.04), and
// glibc 2.31 for the portable release (RRDMA_PORTABLE).
#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

#define RRDMA_RUNTIME extern "C" __attribute__((visibility("hidden")))

// glibc 2.36; libstdc++ uses it for std::random_device.
RRDMA_RUNTIME std::uint32_t arc4random();
RRDMA_RUNTIME std::uint32_t arc4random() {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

// glibc 2.36; libevent uses it in `rrdma`.
RRDMA_RUNTIME void arc4random_buf(void* to, std::size_t size);
RRDMA_RUNTIME void arc4random_buf(void* to, std::size_t size) {
  auto* at = static_cast<unsigned char*>(to);
  while (size != 0) {
    const ssize_t got = getrandom(at, size, 0);
    if (got <= 0) continue;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

#ifdef RRDMA_PORTABLE
// glibc 2.32; libstdc++ uses it to avoid atomic operations. False is always correct.
RRDMA_RUNTIME char __libc_single_threaded;
char __libc_single_threaded = 0;

// Stand for stdout and stderr in the static libnl, whose code is not for shared libraries
// (scripts/make-dist).
RRDMA_RUNTIME FILE* rrdma_stdout;
RRDMA_RUNTIME FILE* rrdma_stderr;
FILE* rrdma_stdout = nullptr;
FILE* rrdma_stderr = nullptr;
namespace {
__attribute__((constructor)) void take_streams() {
  rrdma_stdout = stdout;
  rrdma_stderr = stderr;
}
}  // namespace

// glibc 2.35; the unwinder of libgcc uses it to find the frame table of an address. Its layout is that of
// <dlfcn.h>.
namespace {

struct Search {
  std::uintptr_t address;
  dl_find_object* found;
};

int find_frame_table(dl_phdr_info* object, std::size_t, void* argument) {
  auto& search = *static_cast<Search*>(argument);
  const ElfW(Phdr)* frames = nullptr;
  std::uintptr_t begin = 0, end = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const std::uintptr_t at = object->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_GNU_EH_FRAME) frames = &part;
    if (part.p_type == PT_LOAD && search.address >= at && search.address < at + part.p_memsz) {
      begin = at;
      end = at + part.p_memsz;
    }
  }
  if (end == 0) return 0;
  if (frames == nullptr) return -1;
  *search.found = {};
  search.found->dlfo_map_start = reinterpret_cast<void*>(begin);
  search.found->dlfo_map_end = reinterpret_cast<void*>(end);
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(object->dlpi_addr + frames->p_vaddr);
  return 1;
}

}  // namespace

RRDMA_RUNTIME int _dl_find_object(void* address, dl_find_object* found) noexcept;
RRDMA_RUNTIME int _dl_find_object(void* address, dl_find_object* found) noexcept {
  Search search{reinterpret_cast<std::uintptr_t>(address), found};
  return dl_iterate_phdr(find_frame_table, &search) == 1 ? 0 : -1;
}
#endif
