// Room for a file that is going to be mapped. A hole in a mapped file is a promise that the file system may
// break: the first store to it ends the program (SIGBUS) when the disk is full.
#pragma once

#include <cstdint>

namespace rrdma {

// Whether the program's limit (RLIMIT_FSIZE) lets a file be so long.
[[nodiscard]] bool may_be_so_long(std::int64_t octets);

// Makes the file so long. False and errno where it may not be: a limit of the program (RLIMIT_FSIZE) is
// respected without the signal that going beyond it would bring.
[[nodiscard]] bool set_length(int fd, std::int64_t octets);

// The same, and every octet of it is there. For files on a file system; what memfds promise is memory.
[[nodiscard]] bool allocate_file(int fd, std::int64_t octets);

}  // namespace rrdma
