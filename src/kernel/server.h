// Server: executes the kernel's requests with the NIC of this process. One lane serves everything: the
// kernel's memory regions may be invalidated by a request, which only one lane may do (objects/memory.h).
//
// Threads: run() is the only caller from outside: it takes requests. The lane's thread takes doorbells, so
// that the thread that posts is the one that sends and receives. Completions and events come from it, too.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>

#include "host/device.h"
#include "kernel/channel.h"
#include "kernel/doorbells.h"
#include "kernel/kernel_memory.h"
#include "kernel/queue_pair.h"
#include "kernel/regions.h"
#include "nic/lane/feed.h"
#include "nic/lane/lane.h"
#include "nic/process/daemon_listener.h"
#include "nic/process/runtime.h"

namespace rrdma::kernel {

class Server final : private nic::QpListener, private nic::DaemonListener, private nic::Feed {
 public:
  // All must outlive this object. The device is open in the runtime.
  Server(const Channel& channel, nic::Runtime& runtime, host::Device& device);
  ~Server() override;

  // False if the kernel gives no doorbells.
  [[nodiscard]] bool valid() const { return doorbells_.valid(); }
  // Until the kernel's device is gone. REQUIRES: valid().
  void run();

 private:
  void handle(const rrdma_request& request);
  [[nodiscard]] int change_memory(const rrdma_request& request, std::uint32_t& key);
  void change_queue(const rrdma_request& request);
  [[nodiscard]] int resize_queue(const rrdma_request& request);
  [[nodiscard]] int change_qp(QueuePair& qp, const rrdma_request& request, rrdma_qp_attributes& described);
  // For a doorbell that was postponed: resolves the routes of datagrams.
  void ring(std::uint32_t handle);
  // Posts what is in the ring of the QP. False: the route of a datagram is unknown.
  [[nodiscard]] bool take_sends(QueuePair& qp, Instant now);
  [[nodiscard]] int create_qp(std::uint32_t handle, const rrdma_create_qp& form, std::uint32_t& qpn);
  [[nodiscard]] int modify_qp(QueuePair& qp, const rrdma_qp_attributes& attributes);
  void describe_qp(const QueuePair& qp, rrdma_qp_attributes& to);
  [[nodiscard]] int destroy_qp(std::uint32_t handle);
  [[nodiscard]] int change_group(QueuePair& qp, const wire::Gid& group, bool attach);
  void send_mad(const rrdma_mad& mad);
  void claim_mads();

  [[nodiscard]] Completions* completions(const rrdma_queue_form& form);
  [[nodiscard]] SharedReceives* shared_receives(const rrdma_create_qp& form, std::uint32_t grant_key);
  [[nodiscard]] QueuePair* find(std::uint32_t handle);
  // Resolves an address of the kernel; it may block.
  [[nodiscard]] Result<objects::Path, Problem> resolve(const rrdma_address& address, wire::Qpn local,
                                                       wire::Qpn remote);
  void learn_route(QueuePair& qp, const DatagramRoute& route);
  [[nodiscard]] std::uint32_t gid_index(const wire::Gid& local) const;

  void on_qp_event(transport::QueuePair& qp, transport::QpEvent event) override;
  void on_daemon_message(control::Received& message) override;
  void on_daemon_changed() override;
  [[nodiscard]] int fd() const override { return channel_.fd(); }
  [[nodiscard]] bool pending() const override { return doorbells_.any(); }
  void take(Instant now) override;

  const Channel& channel_;
  nic::Runtime& runtime_;
  host::Device& device_;
  nic::Lane& lane_;
  KernelMemory memory_;
  Doorbells doorbells_;
  std::unique_ptr<Regions> regions_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Completions>> queues_;
  std::unordered_map<std::uint32_t, std::unique_ptr<SharedReceives>> shared_;
  std::unordered_map<std::uint32_t, std::unique_ptr<QueuePair>> qps_;
  std::unordered_map<std::uint32_t, QueuePair*> by_number_;
  std::map<wire::Gid, unsigned> groups_;  // attached QPs
};

}  // namespace rrdma::kernel
