#include "preload/rdma_cm/station.h"

#include <sys/eventfd.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/descriptor_set.h"
#include "base/entropy.h"
#include "base/guarded_copy.h"
#include "base/raw_syscall.h"
#include "host/explain.h"
#include "host/signals/fault_handler.h"
#include "preload/rdma_cm/ask.h"

namespace rrdma::rdma_cm {
namespace {

constexpr std::size_t kCommandMax = 1024;  // the longest is a CONNECT of some 300 bytes
constexpr std::uint32_t kDatagramQKey = 0x01234567;

// The descriptors that are channels. In the child of a fork the bits stay, and its copies are closed like any
// descriptor.
constinit DescriptorSet channels;

std::atomic<Station*> latest{nullptr};
std::atomic<std::uint64_t> eventfd_inode{0};

// All eventfds share one kernel inode that nothing else has.
std::uint64_t inode_of(int fd) {
  struct stat status;
  return ::syscall(SYS_fstat, fd, &status) == 0 ? status.st_ino : 0;
}

template <typename T>
T body_of(Octets body) {
  T value{};
  std::memcpy(&value, body.data(), std::min(body.size(), sizeof value));
  return value;
}

}  // namespace

int Response::write(const void* from, std::size_t size, std::size_t needed) const {
  if (room < needed) return ENOSPC;
  return guarded_copy(reinterpret_cast<void*>(address), from, std::min(size, room)) ? 0 : EFAULT;
}

// The child of a vfork runs in our memory with its own descriptors, so the station must ignore its closes.
// The child of a fork has its own memory and detects that.
bool Station::in_borrowed_memory() {
  Station* const current = latest.load(std::memory_order_acquire);
  return current != nullptr && !current->birth_.forked() && current->owner_ != raw::getpid();
}

Station& Station::instance() {
  static std::mutex mutex;
  static Station* station = nullptr;
  const std::lock_guard lock(mutex);
  // Leave the parent's station alone: its threads do not exist here, and its locks may be held.
  if (station == nullptr || station->birth_.forked()) station = new Station;
  latest.store(station, std::memory_order_release);
  return *station;
}

Station::Station() : owner_(raw::getpid()), psns_(system_keys()), ids_(1) { host::install_fault_handler(); }

bool Station::may_be_channel(int fd) { return channels.contains(fd); }

bool Station::is_channel(int fd) {
  return may_be_channel(fd) && inode_of(fd) == eventfd_inode.load(std::memory_order_relaxed);
}

int Station::next_channel(int first) { return channels.next(first); }

// ---- channels ----

int Station::open(int flags) {
  const int wanted = EFD_SEMAPHORE | ((flags & O_CLOEXEC) != 0 ? EFD_CLOEXEC : 0) |
                     ((flags & O_NONBLOCK) != 0 ? EFD_NONBLOCK : 0);
  const int fd = raw::eventfd(0, wanted);
  if (fd < 0) return -1;
  if (fd >= DescriptorSet::kNumbers) {
    raw::close(fd);
    errno = EMFILE;
    return -1;
  }
  const std::lock_guard lock(mutex_);
  channels_[fd] = std::make_shared<Channel>(fd, inode_of(fd));
  eventfd_inode.store(channels_[fd]->inode(), std::memory_order_relaxed);
  channels.add(fd);
  return fd;
}

std::shared_ptr<Channel> Station::channel_of(int fd) {
  const std::lock_guard lock(mutex_);
  const auto found = channels_.find(fd);
  return found == channels_.end() ? nullptr : found->second;
}

void Station::close(int fd) {
  if (in_borrowed_memory()) return;
  channels.remove(fd);
  std::vector<IdPointer> ended;
  {
    const std::lock_guard lock(mutex_);
    const auto found = channels_.find(fd);
    if (found == channels_.end()) return;
    const std::shared_ptr<Channel> channel = found->second;
    channels_.erase(found);
    const std::vector<IdPointer> all = ids_;
    for (const IdPointer& id : all) {
      if (id != nullptr && id->channel == channel.get()) forget(id, ended);
    }
    channel->close();
  }
  bury(ended);
}

// ---- commands ----

ssize_t Station::write(int fd, const void* data, std::size_t size) {
  if (in_borrowed_memory()) return raw::write(fd, data, size);
  const std::shared_ptr<Channel> channel = channel_of(fd);
  if (channel == nullptr) {
    host::fail(ENODEV, "rdma_cm",
               "this event channel belongs to the process that this one was forked from: open a new one.");
    return -1;
  }
  // A program may close a descriptor without our hooks; its number may then belong to another file.
  if (inode_of(fd) != channel->inode()) {
    close(fd);
    return raw::write(fd, data, size);
  }
  rdma_ucm_cmd_hdr header;
  int error = 0;
  if (size < sizeof header) {
    error = EINVAL;
  } else if (!guarded_copy(&header, data, sizeof header)) {
    error = EFAULT;
  } else if (header.cmd > RDMA_USER_CM_CMD_JOIN_MCAST || sizeof header + header.in > size ||
             header.in > kCommandMax) {
    error = EINVAL;
  } else {
    std::array<std::uint8_t, kCommandMax> body;
    if (guarded_copy(body.data(), static_cast<const std::uint8_t*>(data) + sizeof header, header.in)) {
      error = dispatch(*channel,
                       {.number = header.cmd, .body = Octets(body).first(header.in), .room = header.out});
    } else {
      error = EFAULT;
    }
  }
  if (error != 0) {
    errno = error;
    return -1;
  }
  return static_cast<ssize_t>(size);
}

int Station::dispatch(Channel& channel, const Command& command) {
  // Passes the body to the handler of its command; at least `least` bytes must be present.
  const auto run = [&]<typename Body>(int (Station::*verb)(Channel&, const Body&),
                                      std::size_t least = sizeof(Body)) {
    return command.body.size() >= least ? (this->*verb)(channel, body_of<Body>(command.body)) : EINVAL;
  };
  // The same for a handler that writes an answer into the caller's memory.
  const auto answer = [&]<typename Body>(int (Station::*verb)(Channel&, const Body&, std::size_t)) {
    return command.body.size() >= sizeof(Body)
               ? (this->*verb)(channel, body_of<Body>(command.body), command.room)
               : EINVAL;
  };
  switch (command.number) {
    case RDMA_USER_CM_CMD_CREATE_ID: return answer(&Station::create_id);
    case RDMA_USER_CM_CMD_DESTROY_ID: return answer(&Station::destroy_id);
    case RDMA_USER_CM_CMD_BIND_IP: return run(&Station::bind_ip);
    case RDMA_USER_CM_CMD_RESOLVE_IP: return run(&Station::resolve_ip);
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE: return run(&Station::resolve_path);
    case RDMA_USER_CM_CMD_QUERY_ROUTE: return answer(&Station::query_route);
    // Newer fields at the end of CONNECT and ACCEPT may be missing.
    case RDMA_USER_CM_CMD_CONNECT: return run(&Station::connect, offsetof(rdma_ucm_connect, ece));
    case RDMA_USER_CM_CMD_LISTEN: return run(&Station::listen);
    case RDMA_USER_CM_CMD_ACCEPT: return run(&Station::accept, offsetof(rdma_ucm_accept, ece));
    case RDMA_USER_CM_CMD_REJECT: return run(&Station::reject);
    case RDMA_USER_CM_CMD_DISCONNECT: return run(&Station::disconnect);
    case RDMA_USER_CM_CMD_INIT_QP_ATTR: return answer(&Station::init_qp_attributes);
    case RDMA_USER_CM_CMD_GET_EVENT: return answer(&Station::fetch_event);
    case RDMA_USER_CM_CMD_SET_OPTION: return run(&Station::set_option);
    case RDMA_USER_CM_CMD_NOTIFY: return run(&Station::notify);
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST: return answer(&Station::join_ip_multicast);
    case RDMA_USER_CM_CMD_LEAVE_MCAST: return answer(&Station::leave_multicast);
    case RDMA_USER_CM_CMD_MIGRATE_ID: return answer(&Station::migrate_id);
    case RDMA_USER_CM_CMD_QUERY: return answer(&Station::query);
    case RDMA_USER_CM_CMD_BIND: return run(&Station::bind);
    case RDMA_USER_CM_CMD_RESOLVE_ADDR: return run(&Station::resolve_address);
    case RDMA_USER_CM_CMD_JOIN_MCAST: return answer(&Station::join_multicast);
    default: return ENOSYS;  // GET_OPTION, as in the kernel
  }
}

// ---- ids ----

IdPointer Station::make_id(Channel& channel) {
  auto id = std::make_shared<Identifier>();
  // The lowest free handle, because librdmacm keeps an array of them.
  const auto free = std::find(ids_.begin() + 1, ids_.end(), nullptr);
  id->handle = static_cast<std::uint32_t>(free - ids_.begin());
  if (free == ids_.end()) {
    ids_.push_back(id);
  } else {
    *free = id;
  }
  id->number = ++last_number_;
  id->channel = &channel;
  id->starting_psn = psns_.next() & wire::kMask24;
  id->qkey = kDatagramQKey;
  by_number_[id->number] = id;
  return id;
}

IdPointer Station::find(Channel& channel, std::uint32_t handle, int& error) {
  const std::lock_guard lock(mutex_);
  if (handle >= ids_.size() || ids_[handle] == nullptr) {
    error = ENOENT;
    return nullptr;
  }
  if (ids_[handle]->channel != &channel) {
    error = EINVAL;
    return nullptr;
  }
  error = 0;
  return ids_[handle];
}

Station::HeldId Station::hold_connected(Channel& channel, std::uint32_t handle) {
  int error = 0;
  IdPointer id = find(channel, handle, error);
  if (id == nullptr) return {.error = error};
  std::unique_lock command(id->command);
  const std::lock_guard lock(mutex_);
  if (id->destroyed || !id->is_connected()) return {.error = EINVAL};
  return {.id = std::move(id), .command = std::move(command)};
}

int Station::create_id(Channel& channel, const rdma_ucm_create_id& command, std::size_t room) {
  std::uint8_t qp_type = 0;
  switch (command.ps) {
    case RDMA_PS_TCP: qp_type = kQpReliable; break;
    case RDMA_PS_UDP: qp_type = kQpDatagram; break;
    case RDMA_PS_IB: qp_type = command.qp_type; break;
    case RDMA_PS_IPOIB:
      return host::fail(EPROTONOSUPPORT, "rdma_create_id",
                        "RDMA_PS_IPOIB is for InfiniBand fabrics; on RoCE use RDMA_PS_UDP.");
    default: return EINVAL;
  }
  const Response response{command.response, room};
  const std::lock_guard lock(mutex_);
  const IdPointer id = make_id(channel);
  id->uid = command.uid;
  id->port_space = command.ps;
  id->qp_type = qp_type;
  const rdma_ucm_create_id_resp answer{.id = id->handle};
  const int error = response.write(answer);
  if (error != 0) {
    std::vector<IdPointer> unused;
    forget(id, unused);
  }
  return error;
}

// Removes the id from all tables, together with the ids of its pending requests.
void Station::forget(const IdPointer& id, std::vector<IdPointer>& ended) {
  if (id->destroyed) return;
  id->destroyed = true;
  ids_[id->handle] = nullptr;
  by_number_.erase(id->number);
  if (id->is_connected()) by_connection_.erase(id->connection.value);
  for (const auto& membership : id->memberships) memberships_.erase(membership->handle);
  ended.push_back(id);
  if (id->channel == nullptr) return;
  for (const PendingEvent& event : id->channel->take_all_of(*id)) {
    if (event.request != nullptr) forget(event.request, ended);
  }
}

void Station::bury(const std::vector<IdPointer>& ended) {
  for (const IdPointer& id : ended) {
    const std::lock_guard command(id->command);
    cm::ConnectionId connection;
    bool has_port = false;
    {
      const std::lock_guard lock(mutex_);
      connection = std::exchange(id->connection, {});
      has_port = std::exchange(id->has_port, false);
    }
    // If the daemon is gone, so are its connections.
    if (connection.value != 0) (void)ask<control::Done>(control::CmDestroy{.connection = connection});
    if (has_port) (void)ask<control::Done>(control::CmRelease{.number = id->number});
  }
}

int Station::destroy_id(Channel& channel, const rdma_ucm_destroy_id& command, std::size_t room) {
  if (room < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  std::vector<IdPointer> ended;
  {
    const std::lock_guard lock(mutex_);
    if (id->destroyed) return ENOENT;
    forget(id, ended);
  }
  bury(ended);
  const rdma_ucm_destroy_id_resp answer{.events_reported = id->events_reported};
  return Response{command.response, room}.write(answer);
}

// ---- events ----

PendingEvent Station::event_for(const IdPointer& id, EventKind kind, int status) {
  PendingEvent event;
  event.id = id;
  event.content.uid = id->uid;
  event.content.id = id->handle;
  event.content.event = static_cast<std::uint32_t>(kind);
  event.content.status = static_cast<std::uint32_t>(status);
  return event;
}

void Station::push(PendingEvent event) {
  if (event.id->destroyed || event.id->channel == nullptr || event.id->channel->closed()) return;
  Channel& channel = *event.id->channel;
  channel.push(std::move(event));
}

int Station::fetch_event(Channel& channel, const rdma_ucm_get_event& command, std::size_t room) {
  constexpr std::size_t kNeeded = offsetof(rdma_ucm_event_resp, reserved);
  if (room < kNeeded) return ENOSPC;
  for (;;) {
    std::uint32_t turn = 0;
    {
      const std::lock_guard lock(mutex_);
      turn = channel.turn();
      if (!channel.empty()) {
        const rdma_ucm_event_resp& content = channel.front().content;
        if (const int error = Response{command.response, room}.write(&content, sizeof content, kNeeded);
            error != 0)
          return error;
        const PendingEvent event = channel.pop();
        ++event.id->events_reported;
        if (event.membership != nullptr) ++event.membership->events_reported;
        return 0;
      }
    }
    const int flags = raw::fcntl(channel.fd(), F_GETFL);
    if (flags >= 0 && (flags & O_NONBLOCK) != 0) return EAGAIN;
    if (const int error = channel.wait(turn); error != 0) return error;
  }
}

int Station::migrate_id(Channel& channel, const rdma_ucm_migrate_id& command, std::size_t room) {
  if (room < sizeof(rdma_ucm_migrate_resp)) return ENOSPC;
  const std::shared_ptr<Channel> from = channel_of(static_cast<int>(command.fd));
  if (from == nullptr) return EINVAL;
  int error = 0;
  const IdPointer id = find(*from, command.id, error);
  if (id == nullptr) return error;
  rdma_ucm_migrate_resp answer{};
  {
    const std::lock_guard lock(mutex_);
    if (id->destroyed) return ENOENT;
    id->channel = &channel;
    for (PendingEvent& event : from->take_all_of(*id)) {
      // The new id of a request moves to the channel of its event.
      if (event.request != nullptr) event.request->channel = &channel;
      channel.push(std::move(event));
    }
    answer.events_reported = id->events_reported;
  }
  return Response{command.response, room}.write(answer);
}

int Station::ensure_uplink(const char* call) {
  if (uplink_.is_open()) return 0;
  if (const auto opened =
          uplink_.open(*this, [this](const host::Device& device,
                                     host::DeviceEvent event) { handle_device_event(device, event); });
      !opened)
    return host::fail(opened.error().error, call, opened.error().sentence);
  const std::lock_guard lock(adoption_);
  if (adopted_pid_ == 0) adopted_pid_ = uplink_.daemon_pid();
  return 0;
}

}  // namespace rrdma::rdma_cm
