#include "preload/verbs/device/context.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "host/descriptor_room.h"
#include "host/explain.h"
#include "preload/verbs/context_objects.h"
#include "preload/verbs/device/device_list.h"
#include "preload/verbs/device/end_of_process.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/real_library.h"

namespace rrdma::verbs {
namespace {

// Delivers events of QPs to the context of their QP. One instance serves all, because QPs know their owners.
class QpEvents final : public nic::QpListener {
 public:
  void on_qp_event(transport::QueuePair& qp, transport::QpEvent event) override {
    auto* owner = static_cast<Qp*>(qp.owner);
    if (owner == nullptr) return;
    ibv_async_event out{};
    out.element.qp = owner->abi();
    out.event_type = type_of(event);
    own(owner->qp_base.context).async_events->push(out);
  }

 private:
  static ibv_event_type type_of(transport::QpEvent event) {
    switch (event) {
      case transport::QpEvent::kFatal: return IBV_EVENT_QP_FATAL;
      case transport::QpEvent::kAccessError: return IBV_EVENT_QP_ACCESS_ERR;
      case transport::QpEvent::kRequestError: return IBV_EVENT_QP_REQ_ERR;
      case transport::QpEvent::kCommunicationEstablished: return IBV_EVENT_COMM_EST;
      case transport::QpEvent::kSendQueueDrained: return IBV_EVENT_SQ_DRAINED;
      case transport::QpEvent::kLastReceiveReached: return IBV_EVENT_QP_LAST_WQE_REACHED;
    }
    return IBV_EVENT_QP_FATAL;
  }
};

QpEvents& qp_events() {
  static auto* const listener = new QpEvents;
  return *listener;
}

constexpr const char* kCommandFile = "rrdma-commands";

// Whether the descriptor is the cmd_fd of one of our contexts.
bool is_command_file(int fd) {
  char target[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (::readlink(link.c_str(), target, sizeof target - 1) < 0) return false;
  return std::string_view(target).find(kCommandFile) != std::string_view::npos;
}

Context* open_context(ibv_device* device) {
  constexpr const char* kCall = "ibv_open_device";
  auto context = std::make_unique<Context>();
  context->async_events = std::make_unique<AsyncEvents>();
  if (!context->async_events->valid()) {
    host::fail(host::out_of_descriptors(errno, "events of the device").error, kCall);
    return nullptr;
  }
  context->command_file = above_standard(raw::memfd_create(kCommandFile, MFD_CLOEXEC));
  if (!context->command_file) {
    host::fail(host::out_of_descriptors(errno, "the device's cmd_fd").error, kCall);
    return nullptr;
  }
  nic::Runtime& runtime = nic::Runtime::instance();
  auto opened = runtime.open(identity_of(device).name);
  if (!opened) {
    host::fail(opened.error(), kCall);
    return nullptr;
  }
  context->runtime = &runtime;
  context->nic_device = std::move(*opened);
  context->device_number = runtime.device_number(*context->nic_device);
  context->lanes = &runtime.lanes();
  context->port_watch = std::make_unique<PortWatch>(*context->async_events);
  context->nic_device->add_listener(*context->port_watch);
  context->lanes->set_qp_listener(&qp_events());
  ibv_context& abi = context->context;
  abi.device = device;
  abi.cmd_fd = context->command_file.get();
  abi.async_fd = context->async_events->fd();
  abi.num_comp_vectors = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  pthread_mutex_init(&abi.mutex, nullptr);
  fill_operations(*context);
  note_opened(*context);
  return context.release();
}

// Ends everything except the context's memory and its objects.
void end_context(Context& context) {
  note_closed(context);
  context.nic_device->remove_listener(*context.port_watch);
  context.runtime->close(context.nic_device);
  pthread_mutex_destroy(&context.context.mutex);
}

}  // namespace

void end_of_process() { nic::Runtime::end_process(); }

void PortWatch::on_device_event(host::DeviceEvent event) {
  ibv_async_event out{};
  out.element.port_num = 1;
  switch (event) {
    case host::DeviceEvent::kGidChange: out.event_type = IBV_EVENT_GID_CHANGE; break;
    case host::DeviceEvent::kPortActive: out.event_type = IBV_EVENT_PORT_ACTIVE; break;
    case host::DeviceEvent::kPortError: out.event_type = IBV_EVENT_PORT_ERR; break;
    case host::DeviceEvent::kRemoved: out.event_type = IBV_EVENT_DEVICE_FATAL; break;
    case host::DeviceEvent::kHardwareAddressChange: return;  // only for the connection manager
  }
  events_.push(out);
}

int refuse_forked(std::string_view call) {
  return host::fail(EIO, call,
                    "this process is a child of the one that opened the device, and RDMA objects do not "
                    "survive a fork: open the device again.");
}

}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS ibv_context* ibv_open_device(ibv_device* device) {
  if (!is_own(device)) RRDMA_PASS_ON(nullptr, ibv_open_device, "IBVERBS_1.1", device);
  Context* context = open_context(device);
  if (context == nullptr) return nullptr;
  if (inject("ibv_open_device", &context->context) != 0) {
    const int error = errno;
    end_context(*context);
    delete context;
    errno = error;
    return nullptr;
  }
  Place("ibv_open_device", ObjectKind::kContext, &context->context).settle(&context->context);
  return &context->context;
}

RRDMA_VERBS ibv_context* ibv_import_device(int fd) {
  if (!is_command_file(fd)) RRDMA_PASS_ON(nullptr, ibv_import_device, "IBVERBS_1.10", fd);
  host::fail(EOPNOTSUPP, "ibv_import_device",
             "an open device cannot be shared between processes here; open it in each.");
  return nullptr;
}

RRDMA_VERBS int ibv_close_device(ibv_context* abi) {
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign) RRDMA_PASS_ON(-1, ibv_close_device, "IBVERBS_1.1", abi);
  if (refuse_unless_live("ibv_close_device", abi, validity) != 0) return -1;
  Context& context = own(abi);
  if (context.forked()) return 0;  // the parent's memory as of the fork
  const NoInjection inside;
  destroy_context_objects(context);
  end_context(context);
  bury(context, abi);
  return 0;
}
