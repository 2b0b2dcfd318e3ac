// Disk space for files that will be mapped. A hole in a mapped file has no block behind it: if the disk is
// full, the first store to it kills the program (SIGBUS).
#pragma once

#include <cstdint>

namespace rrdma {

// Whether RLIMIT_FSIZE permits a file of this length.
[[nodiscard]] bool may_be_so_long(std::int64_t octets);

// Sets the length of the file. Returns false and sets errno on failure. Exceeding RLIMIT_FSIZE is an error
// here (EFBIG); it does not raise SIGXFSZ.
[[nodiscard]] bool set_length(int fd, std::int64_t octets);

// Sets the length and allocates every block. For files on a file system; a memfd needs only memory.
[[nodiscard]] bool allocate_file(int fd, std::int64_t octets);

}  // namespace rrdma
