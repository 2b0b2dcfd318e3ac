// Context: an open device as a program sees it, with the operations that verbs.h calls through it.
//
// Threads: everything from any thread. Objects of a context outlive calls on them; the context outlives its
// objects, as the API requires. In the child of a fork every call is refused, because the parent's threads
// and sockets do not exist there.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <mutex>
#include <string_view>

#include "host/device.h"
#include "nic/process/runtime.h"
#include "preload/verbs/device/async_events.h"

namespace rrdma::verbs {

struct Context;

// Turns port changes into events of the context.
class PortWatch final : public host::DeviceListener {
 public:
  explicit PortWatch(AsyncEvents& events) : events_(events) {}
  void on_device_event(host::DeviceEvent event) override;

 private:
  AsyncEvents& events_;
};

struct Context : verbs_context {
  nic::Runtime* runtime = nullptr;
  nic::Lanes* lanes = nullptr;
  std::shared_ptr<host::Device> nic_device;
  std::uint16_t device_number = 0;
  std::unique_ptr<AsyncEvents> async_events;
  std::unique_ptr<PortWatch> port_watch;
  std::atomic<std::uint32_t> gids_searched{
      0};                                // entries of the table that were asked for one after the other
  std::atomic<int> empty_gid_asked{-1};  // the last index that the program chose and that was empty
  OwnedFd command_file;  // stands in for the kernel's command descriptor, which programs duplicate

  [[nodiscard]] bool forked() const { return runtime->forked(); }
};

// Our devices carry this address in a field that nothing else uses.
void own_device_mark();

inline bool is_own(const ibv_device* device) {
  return reinterpret_cast<const void*>(device->_ops._dummy2) ==
         reinterpret_cast<const void*>(&own_device_mark);
}
inline bool is_own(const ibv_context* context) { return is_own(context->device); }

// REQUIRES: is_own(context).
inline Context& own(ibv_context* context) {
  return *static_cast<Context*>(reinterpret_cast<verbs_context*>(reinterpret_cast<std::uint8_t*>(context) -
                                                                 offsetof(verbs_context, context)));
}

// The limit of a resource: `offered`, or less if the user's device plan says so (host/device_plan.h). `name`
// is the field of ibv_device_attr. REQUIRES: is_own(context).
inline std::uint32_t limit_of(const ibv_context* context, std::string_view name, std::uint32_t offered) {
  return own(const_cast<ibv_context*>(context)).nic_device->identity().properties.limit(name, offered);
}

// Explains that the process has forked; returns EIO with errno set.
int refuse_forked(std::string_view call);

// Fills in everything that programs reach through the context. In operations.cc.
void fill_operations(verbs_context& context);

}  // namespace rrdma::verbs
