#include "control/names.h"

#include <sys/file.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "control/raw_stat.h"

namespace rrdma::control {
namespace {

// Programs that open a device at the same moment queue here; beyond that, connect() fails with EAGAIN.
constexpr int kBacklog = 512;

// Of a path, which begins with a slash, or of an abstract name.
struct Address {
  sockaddr_un address{};
  socklen_t size = 0;

  explicit Address(std::string_view name) {
    const std::size_t skipped = name.front() == '/' ? 0 : 1;  // sun_path[0] is 0: abstract
    RRDMA_ASSERT(name.size() + skipped < sizeof address.sun_path);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + skipped, name.data(), name.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + skipped + name.size() + (1 - skipped));
  }
  [[nodiscard]] const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address); }
};

OwnedFd control_socket() {
  return lifted(raw::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

constexpr std::string_view kSystemFolder = "/run/rrdma";

std::string own_namespace(const char* path) {
  struct stat status {};
  return "-" + std::to_string(raw_stat(path, status) == 0 ? status.st_ino : 0);
}

std::string file_of_network(std::string_view ending) {
  return "/net" + own_namespace("/proc/self/ns/net") + std::string(ending);
}

// A user is one uid in one user namespace and one PID namespace (identity.h).
std::string own_namespaces_text(std::string_view ending) {
  return own_namespace("/proc/self/ns/net") + own_namespace("/proc/self/ns/pid") +
         own_namespace("/proc/self/ns/user") + std::string(ending);
}
std::string file_of_user(std::string_view ending) { return "/net" + own_namespaces_text(ending); }
std::string file_of_lab(std::string_view ending) { return "/lab" + own_namespaces_text(ending); }

// A real directory of that user, writable by no one else.
bool is_safe(const std::string& folder, uid_t uid, mode_t forbidden) {
  struct stat status {};
  return raw_stat(folder.c_str(), status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == uid && (status.st_mode & forbidden) == 0;
}

bool make_folder(const std::string& folder, uid_t uid, mode_t mode) {
  if (uid == ::geteuid() && ::mkdir(folder.c_str(), mode) == 0 && mode != 0700)
    (void)::chmod(folder.c_str(), mode);
  return is_safe(folder, uid, mode == 0700 ? 077 : 022);
}

std::vector<std::string> user_folders(uid_t uid) {
  std::vector<std::string> folders;
  const std::string run = "/run/user/" + std::to_string(uid);
  const std::string temporary = "/tmp/rrdma-" + std::to_string(uid);
  if (is_safe(run, uid, 077) && make_folder(run + "/rrdma", uid, 0700)) folders.push_back(run + "/rrdma");
  if (make_folder(temporary, uid, 0700)) folders.push_back(temporary);
  return folders;
}

// Its connections inherit the option. Set on a connection, it would miss the credentials of the messages that
// arrive before.
int start_listening(const OwnedFd& socket) {
  (void)raw::setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, 1);
  return raw::listen(socket.get(), kBacklog);
}

unsigned long argument_of(struct flock& record) { return reinterpret_cast<unsigned long>(&record); }

// The locked file; invalid with EAGAIN if another process holds the lock. The second lock, of another kind,
// lasts as long as the first. A process can look at it without taking it (is_locked).
OwnedFd locked_file(const std::string& path) {
  OwnedFd file = lifted(raw::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) file.reset();
  struct flock whole {};
  whole.l_type = F_WRLCK;
  if (file) (void)raw::fcntl(file.get(), F_OFD_SETLK, argument_of(whole));
  return file;
}

// Whether a process has the file from locked_file().
bool is_locked(const std::string& path) {
  const OwnedFd file = lifted(raw::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct flock found {};
  found.l_type = F_WRLCK;
  return file && raw::fcntl(file.get(), F_OFD_GETLK, argument_of(found)) == 0 && found.l_type != F_UNLCK;
}

// A socket at the path, replacing any existing file. REQUIRES: the lock beside it is held.
OwnedFd listen_at(const std::string& path, mode_t mode) {
  OwnedFd socket = control_socket();
  if (!socket) return socket;
  const Address address(path);
  (void)::unlink(path.c_str());
  if (raw::bind(socket.get(), address.generic(), address.size) < 0 || ::chmod(path.c_str(), mode) < 0 ||
      start_listening(socket) < 0) {
    socket.reset();
  }
  return socket;
}

std::optional<HeldPaths> hold(const std::vector<std::string>& folders, std::string (*file)(std::string_view),
                              mode_t mode) {
  HeldPaths held;
  for (const std::string& folder : folders) {
    OwnedFd lock = locked_file(folder + file(".lock"));
    if (!lock && errno == EAGAIN) return std::nullopt;
    const std::string path = folder + file(".sock");
    OwnedFd listener = lock ? listen_at(path, mode) : OwnedFd();
    if (!listener) continue;
    held.locks.push_back(std::move(lock));
    held.listeners.push_back(std::move(listener));
    held.paths.push_back(path);
  }
  return held;
}

}  // namespace

std::string user_name(uid_t uid) { return "rrdma.user." + std::to_string(uid); }
std::string start_name(uid_t uid) { return "rrdma.start." + std::to_string(uid); }

std::string system_path() { return std::string(kSystemFolder) + file_of_network(".sock"); }

std::vector<std::string> user_paths(uid_t uid) {
  std::vector<std::string> paths = user_folders(uid);
  for (std::string& path : paths) path += file_of_user(".sock");
  return paths;
}

std::optional<HeldPaths> hold_user_paths() { return hold(user_folders(::geteuid()), file_of_user, 0600); }

std::optional<HeldPaths> hold_system_path() {
  const std::string folder(kSystemFolder);
  if (!make_folder(folder, 0, 0755)) return HeldPaths();
  return hold({folder}, file_of_network, 0666);
}

std::optional<HeldPaths> hold_lab_paths() { return hold(user_folders(::geteuid()), file_of_lab, 0600); }

std::vector<std::string> lab_paths(uid_t uid) {
  std::vector<std::string> paths = user_folders(uid);
  for (std::string& path : paths) path += file_of_lab(".sock");
  return paths;
}

std::string lock_of_user_daemon() {
  for (const std::string& folder : user_folders(::geteuid())) {
    const std::string path = folder + file_of_user(".lock");
    if (is_locked(path)) return path;
  }
  return {};
}

OwnedFd start_lock() {
  for (const std::string& folder : user_folders(::geteuid())) {
    OwnedFd lock = locked_file(folder + file_of_user(".start"));
    if (lock || errno == EAGAIN) return lock;
  }
  return listen_on(start_name(::geteuid()));
}

OwnedFd connect_to(std::string_view name) {
  const Address address(name);
  OwnedFd socket = control_socket();
  if (!socket) return socket;
  int status;
  do {
    status = raw::connect(socket.get(), address.generic(), address.size);
  } while (status < 0 && errno == EINTR);
  if (status < 0) socket.reset();
  return socket;
}

OwnedFd listen_on(std::string_view name) {
  const Address address(name);
  OwnedFd socket = control_socket();
  if (!socket) return socket;
  if (raw::bind(socket.get(), address.generic(), address.size) < 0 || start_listening(socket) < 0) {
    socket.reset();
  }
  return socket;
}

}  // namespace rrdma::control
