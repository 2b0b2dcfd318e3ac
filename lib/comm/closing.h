// Closing: how far the end of a connection has come.
//
// An end that closes sends a close message after its last request. Its acknowledgement proves that everything
// has arrived. If the peer's close message comes first, an own one is not needed. A disconnect follows, whose
// answer matters only if neither close message is certain.
#pragma once

#include "rrdma/comm/error.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

class Closing {
 public:
  // This end closes or aborts.
  void begin() { begun_ = true; }
  [[nodiscard]] bool begun() const { return begun_; }
  // The peer's close message has arrived.
  void hear_close() { peer_closed_ = true; }
  [[nodiscard]] bool peer_closed() const { return peer_closed_; }
  // Whether either end has closed: no new operations, and no more messages.
  [[nodiscard]] bool either() const { return begun_ || peer_closed_; }

  [[nodiscard]] bool message_due() const { return begun_ && !message_sent_; }
  // The close message was sent, or is not needed because the peer closed first.
  void message_sent() { message_sent_ = true; }
  void message_acknowledged() { acknowledged_ = true; }
  // Whether both ends know of the close, so that nothing is left to tell.
  [[nodiscard]] bool complete() const { return acknowledged_ || peer_closed_; }

  // `sent`: whether a request for a disconnect is under way.
  void disconnect(bool sent) { disconnect_sent_ = sent; }
  void disconnected() { disconnected_ = true; }
  [[nodiscard]] bool awaits_disconnect() const { return disconnect_sent_ && !disconnected_ && !complete(); }

  // Why there are no more messages; `otherwise` if nobody closed.
  [[nodiscard]] Code reason(Code otherwise) const {
    if (begun_) return Code::kClosed;
    return peer_closed_ ? Code::kClosedByPeer : otherwise;
  }
  // Why the connection is gone without our doing.
  [[nodiscard]] Code loss() const { return peer_closed_ ? Code::kClosedByPeer : Code::kPeerGone; }

 private:
  bool begun_ = false;
  bool peer_closed_ = false;
  bool message_sent_ = false;
  bool acknowledged_ = false;
  bool disconnect_sent_ = false;
  bool disconnected_ = false;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
