// EventSink: what the owner of an engine is told, beside completions.
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
  // The QP's state or attributes have changed, or (the last call) it is about to be destroyed.
  virtual void on_qp_changed(QueuePair& qp, bool destroyed) {
    static_cast<void>(qp);
    static_cast<void>(destroyed);
  }
  // A request fails, before its completion can be polled; of those that are flushed behind it, how many.
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
