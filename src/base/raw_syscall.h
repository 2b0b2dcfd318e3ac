// The system calls of RRDMA's own I/O, without the C library's wrappers. Our library runs inside other
// people's programs, where librspreload and our own preload interpose socket, read, close and related calls.
// Neither intercepts calls made here. Conventions are those of the C library (-1 and errno). Only calls that
// both x86-64 and arm64 have: ppoll, not poll; openat, not open.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace rrdma::raw {

inline int socket(int domain, int type, int protocol) {
  return static_cast<int>(::syscall(SYS_socket, domain, type, protocol));
}
inline int socketpair(int domain, int type, int protocol, int ends[2]) {
  return static_cast<int>(::syscall(SYS_socketpair, domain, type, protocol, ends));
}
inline int bind(int fd, const sockaddr* address, socklen_t size) {
  return static_cast<int>(::syscall(SYS_bind, fd, address, size));
}
inline int connect(int fd, const sockaddr* address, socklen_t size) {
  return static_cast<int>(::syscall(SYS_connect, fd, address, size));
}
inline int listen(int fd, int backlog) { return static_cast<int>(::syscall(SYS_listen, fd, backlog)); }
inline int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  return static_cast<int>(::syscall(SYS_accept4, fd, address, size, flags));
}
inline int getsockname(int fd, sockaddr* address, socklen_t* size) {
  return static_cast<int>(::syscall(SYS_getsockname, fd, address, size));
}
inline int setsockopt(int fd, int level, int name, const void* value, socklen_t size) {
  return static_cast<int>(::syscall(SYS_setsockopt, fd, level, name, value, size));
}
inline int setsockopt(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value);
}
inline int getsockopt(int fd, int level, int name, void* value, socklen_t* size) {
  return static_cast<int>(::syscall(SYS_getsockopt, fd, level, name, value, size));
}
inline ssize_t sendto(int fd, const void* data, std::size_t size, int flags, const sockaddr* to,
                      socklen_t to_size) {
  return ::syscall(SYS_sendto, fd, data, size, flags, to, to_size);
}
inline ssize_t recvfrom(int fd, void* data, std::size_t size, int flags, sockaddr* from,
                        socklen_t* from_size) {
  return ::syscall(SYS_recvfrom, fd, data, size, flags, from, from_size);
}
inline ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return ::syscall(SYS_sendmsg, fd, message, flags);
}
inline ssize_t recvmsg(int fd, msghdr* message, int flags) {
  return ::syscall(SYS_recvmsg, fd, message, flags);
}
inline int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  return static_cast<int>(::syscall(SYS_sendmmsg, fd, messages, count, flags));
}
inline int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  return static_cast<int>(::syscall(SYS_recvmmsg, fd, messages, count, flags, timeout));
}

inline ssize_t read(int fd, void* data, std::size_t size) { return ::syscall(SYS_read, fd, data, size); }
inline ssize_t write(int fd, const void* data, std::size_t size) {
  return ::syscall(SYS_write, fd, data, size);
}
inline int close(int fd) { return static_cast<int>(::syscall(SYS_close, fd)); }
inline int openat(int directory, const char* path, int flags, unsigned mode = 0) {
  return static_cast<int>(::syscall(SYS_openat, directory, path, flags, mode));
}
inline int open(const char* path, int flags, unsigned mode = 0) {
  return openat(AT_FDCWD, path, flags, mode);
}
inline ssize_t readlinkat(int directory, const char* path, char* target, std::size_t size) {
  return ::syscall(SYS_readlinkat, directory, path, target, size);
}
inline int fcntl(int fd, int command, unsigned long argument = 0) {
  return static_cast<int>(::syscall(SYS_fcntl, fd, command, argument));
}
inline int dup3(int from, int to, int flags) {
  return static_cast<int>(::syscall(SYS_dup3, from, to, flags));
}
inline int ftruncate(int fd, std::int64_t size) {
  return static_cast<int>(::syscall(SYS_ftruncate, fd, size));
}
inline int close_range(unsigned first, unsigned last, unsigned flags) {
  return static_cast<int>(::syscall(SYS_close_range, first, last, flags));
}
inline int memfd_create(const char* name, unsigned flags) {
  return static_cast<int>(::syscall(SYS_memfd_create, name, flags));
}
inline int eventfd(unsigned count, int flags) {
  return static_cast<int>(::syscall(SYS_eventfd2, count, flags));
}
inline int timerfd_create(int clock, int flags) {
  return static_cast<int>(::syscall(SYS_timerfd_create, clock, flags));
}
inline int timerfd_settime(int fd, int flags, const itimerspec* value) {
  return static_cast<int>(::syscall(SYS_timerfd_settime, fd, flags, value, nullptr));
}
inline int sched_yield() { return static_cast<int>(::syscall(SYS_sched_yield)); }
inline int ppoll(pollfd* fds, unsigned count, const timespec* timeout) {
  return static_cast<int>(::syscall(SYS_ppoll, fds, count, timeout, nullptr, 0));
}
inline int epoll_create1(int flags) { return static_cast<int>(::syscall(SYS_epoll_create1, flags)); }
inline int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  return static_cast<int>(::syscall(SYS_epoll_ctl, epoll, operation, fd, event));
}
inline int epoll_wait(int epoll, epoll_event* events, int count, int timeout_ms) {
  return static_cast<int>(::syscall(SYS_epoll_pwait, epoll, events, count, timeout_ms, nullptr, 0));
}
// Linux 5.11; ENOSYS on older kernels.
inline int epoll_pwait2(int epoll, epoll_event* events, int count, const timespec* timeout) {
  return static_cast<int>(::syscall(SYS_epoll_pwait2, epoll, events, count, timeout, nullptr, 0));
}
inline int pidfd_open(pid_t pid, unsigned flags) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, flags));
}
// Linux 5.6; ENOSYS on older kernels. Requires the same permission as process_vm_writev.
inline int pidfd_getfd(int pidfd, int fd) {
  return static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd, fd, 0U));
}
// Linux 4.3; ENOSYS on older kernels, EINVAL for unknown commands.
inline int membarrier(int command) { return static_cast<int>(::syscall(SYS_membarrier, command, 0, 0)); }
// The C library may cache the pid; after a raw clone only the system call is right.
inline pid_t getpid() { return static_cast<pid_t>(::syscall(SYS_getpid)); }

}  // namespace rrdma::raw
