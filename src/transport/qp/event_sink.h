// EventSink: receives the events of an engine, other than completions, on behalf of its owner.
#pragma once

#include <cstdint>

#include "transport/qp/failed_request.h"
#include "transport/qp/queue_pair.h"

namespace rrdma::transport {

enum class QpEvent : std::uint8_t {
  kFatal,
  kAccessError,
  kRequestError,
  kCommunicationEstablished,
  kSendQueueDrained,
  kLastReceiveReached,
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_qp_event(QueuePair& qp, QpEvent event) = 0;
  // The QP's state or attributes have changed. `destroyed`: this is the last call before the QP is destroyed.
  virtual void on_qp_changed(QueuePair& qp, bool destroyed) {
    static_cast<void>(qp);
    static_cast<void>(destroyed);
  }
  // A request has failed; its completion cannot be polled yet. on_requests_flushed() counts those flushed
  // behind it.
  virtual void on_request_failed(QueuePair& qp, const FailedRequest& failed) {
    static_cast<void>(qp);
    static_cast<void>(failed);
  }
  virtual void on_requests_flushed(QueuePair& qp, std::uint32_t sends, std::uint32_t receives) {
    static_cast<void>(qp);
    static_cast<void>(sends);
    static_cast<void>(receives);
  }
};

}  // namespace rrdma::transport
