// Station: the kernel's rdma_cm inside a program. It holds all open channels and all ids of the process,
// executes commands (written by librdmacm into its file), and turns messages of the daemon into events.
//
// Commands of one id run one after the other (Identifier::command). Requests to the daemon run without the
// station's lock, so that events still arrive meanwhile. In the child of a fork the parent's channels are
// unusable.
//
// The parts: station.cc (channels, ids, dispatch), commands_address.cc (BIND, RESOLVE, LISTEN, options),
// commands_connect.cc (CONNECT, ACCEPT, ...), commands_query.cc (QUERY, INIT_QP_ATTR), commands_multicast.cc,
// arrivals.cc (events of the daemon, and its death), device_changes.cc.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/keys/key_source.h"
#include "base/octets.h"
#include "host/fork.h"
#include "preload/rdma_cm/channel.h"
#include "preload/rdma_cm/identifier.h"
#include "preload/rdma_cm/routing/neighbour_watch.h"
#include "preload/rdma_cm/uplink.h"

namespace rrdma::rdma_cm {

// The caller's buffer for the answer of a command.
struct Response {
  std::uint64_t address = 0;
  std::size_t room = 0;

  // Writes at most `room` bytes. ENOSPC if `needed` does not fit, EFAULT if the memory is not mapped.
  [[nodiscard]] int write(const void* from, std::size_t size, std::size_t needed) const;
  template <typename T>
  [[nodiscard]] int write(const T& value) const {
    return write(&value, sizeof value, sizeof value);
  }
};

using IdPointer = std::shared_ptr<Identifier>;

// The message that reserves the port of an id at the daemon. In commands_address.cc.
[[nodiscard]] control::CmBind bind_message(const Identifier& id, const IpAddress& address);

class Station final : private nic::DaemonListener {
 public:
  static Station& instance();

  // Whether a descriptor may be a channel: cheap, for every write() and close() of the program.
  [[nodiscard]] static bool may_be_channel(int fd);
  // Whether it is one according to the kernel: the program may have closed it without our hooks and opened
  // another file.
  [[nodiscard]] static bool is_channel(int fd);
  // The lowest possible channel that is not below `first`, or DescriptorSet::kNumbers.
  [[nodiscard]] static int next_channel(int first);

  // Opens a channel. Returns -1 and errno on failure. `flags`: those of open().
  int open(int flags);
  // Executes one command. Returns the size, or -1 and errno.
  ssize_t write(int fd, const void* data, std::size_t size);
  // The program is about to close the descriptor: ends all ids of the channel. Does nothing in the child of a
  // vfork.
  void close(int fd);

 private:
  Station();
  [[nodiscard]] static bool in_borrowed_memory();

  struct Command {
    std::uint32_t number = 0;
    Octets body;
    std::size_t room = 0;
  };

  // ---- dispatch: each command returns 0 or an errno ----
  int dispatch(Channel& channel, const Command& command);
  int create_id(Channel& channel, const rdma_ucm_create_id& command, std::size_t room);
  int destroy_id(Channel& channel, const rdma_ucm_destroy_id& command, std::size_t room);
  int fetch_event(Channel& channel, const rdma_ucm_get_event& command, std::size_t room);
  int migrate_id(Channel& channel, const rdma_ucm_migrate_id& command, std::size_t room);

  int bind_ip(Channel& channel, const rdma_ucm_bind_ip& command);
  int bind(Channel& channel, const rdma_ucm_bind& command);
  int resolve_ip(Channel& channel, const rdma_ucm_resolve_ip& command);
  int resolve_address(Channel& channel, const rdma_ucm_resolve_addr& command);
  int resolve_path(Channel& channel, const rdma_ucm_resolve_route& command);
  int listen(Channel& channel, const rdma_ucm_listen& command);
  int set_option(Channel& channel, const rdma_ucm_set_option& command);
  int bind_id(Identifier& id, const IpAddress& address);
  int resolve_id(const IdPointer& id, const IpAddress& source, const IpAddress& destination,
                 std::uint32_t timeout_ms);
  void end_address_query(const IdPointer& id, const ResolvedRoute& route, const IpAddress& destination,
                         bool known);

  int connect(Channel& channel, const rdma_ucm_connect& command);
  int accept(Channel& channel, const rdma_ucm_accept& command);
  int reject(Channel& channel, const rdma_ucm_reject& command);
  int disconnect(Channel& channel, const rdma_ucm_disconnect& command);
  int notify(Channel& channel, const rdma_ucm_notify& command);
  [[nodiscard]] cm::ConnectParameters call_of(const Identifier& id, const rdma_ucm_connect& command,
                                              cm::QpType type) const;
  int accept_call(Identifier& id, const rdma_ucm_accept& command);
  int confirm(Identifier& id);

  int query(Channel& channel, const rdma_ucm_query& command, std::size_t room);
  int query_route(Channel& channel, const rdma_ucm_query& command, std::size_t room);
  int init_qp_attributes(Channel& channel, const rdma_ucm_init_qp_attr& command, std::size_t room);

  int join_ip_multicast(Channel& channel, const rdma_ucm_join_ip_mcast& command, std::size_t room);
  int join_multicast(Channel& channel, const rdma_ucm_join_mcast& command, std::size_t room);
  int leave_multicast(Channel& channel, const rdma_ucm_destroy_id& command, std::size_t room);
  int join(Channel& channel, std::uint32_t handle, std::uint64_t uid, const IpAddress& group,
           const Response& response);

  // ---- channels and ids ----
  [[nodiscard]] std::shared_ptr<Channel> channel_of(int fd);
  // EINVAL or ENOENT in `error` if the channel has no such id.
  [[nodiscard]] IdPointer find(Channel& channel, std::uint32_t handle, int& error);
  // A connected id whose other commands wait until this is destroyed; otherwise `id` is null and `error` says
  // why.
  struct HeldId {
    IdPointer id;
    std::unique_lock<std::mutex> command;
    int error = 0;
  };
  [[nodiscard]] HeldId hold_connected(Channel& channel, std::uint32_t handle);
  // REQUIRES: the lock, for all of these.
  IdPointer make_id(Channel& channel);
  [[nodiscard]] static PendingEvent event_for(const IdPointer& id, EventKind kind, int status = 0);
  static void push(PendingEvent event);
  void forget(const IdPointer& id, std::vector<IdPointer>& ended);
  // Releases the daemon's state of ids that are gone. REQUIRES: not the lock.
  void bury(const std::vector<IdPointer>& ended);

  // ---- the daemon ----
  // Opens the device. Returns an errno, explained under the name `call`.
  int ensure_uplink(const char* call);
  // Sends a request to the daemon. A new daemon first gets the state that it must know.
  template <typename Reply, typename Request>
  Result<Reply, Problem> ask(const Request& request);
  template <typename Request>
  int tell(const char* call, const Request& request);
  void on_daemon_message(control::Received& message) override;
  void on_daemon_changed() override;
  void adopt_new_daemon();
  void restore_port(const IdPointer& id);
  void restore_connection(const IdPointer& id);

  // ---- the devices ----
  void handle_device_event(const host::Device& device, host::DeviceEvent event);
  void report_lost_addresses(const host::Device& device);
  void report_hardware_address(const host::Device& device);
  void remove_device(const host::Device& device);

  void arrive(const control::CmEvent& message);
  void arrive_request(const control::CmEvent& message, const cm::Route& route,
                      const std::optional<wire::IpCmHeader>& ip, std::uint64_t service_id);
  [[nodiscard]] IdPointer owner_of(const control::CmEvent& message);
  void fill_path(const Identifier& id, ib_uverbs_ah_attr& to) const;

  const host::ForkMark birth_;
  const pid_t owner_;
  Uplink uplink_;
  NeighbourWatch neighbours_;
  std::mutex adoption_;
  std::uint32_t adopted_pid_ = 0;  // guarded by adoption_

  std::mutex mutex_;
  KeySource psns_;  // the random first PSN of a connection keeps out packets that strangers forge
  std::unordered_map<int, std::shared_ptr<Channel>> channels_;
  std::vector<IdPointer> ids_;  // by handle; null: free
  std::unordered_map<std::uint32_t, IdPointer> by_number_;
  std::unordered_map<std::uint32_t, IdPointer> by_connection_;
  std::map<std::uint32_t, std::pair<IdPointer, std::shared_ptr<Membership>>> memberships_;
  std::uint32_t last_number_ = 0;
};

}  // namespace rrdma::rdma_cm
