// WindowState: a private registration, and the memory window in it that a peer can use.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "lib/comm/reactor.h"
#include "rrdma/comm/buffer.h"
#include "rrdma/comm/window.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

class WindowState final : public Counted, public Link {
 public:
  static Result<Ref<WindowState>> create(const Ref<Reactor>& reactor, void* data, std::size_t size,
                                         Access access);
  ~WindowState() override;
  // Closes the window, then the registration behind it. The owning queue pair calls this before it is
  // destroyed. A device may keep a queue pair as long as it has windows; rxe waits for them for a minute or
  // longer.
  void close();

  // Fills in the bind request. The key is valid once that request is complete.
  void fill(ibv_send_wr& wr) const;
  [[nodiscard]] std::uint32_t key() const { return key_; }

 private:
  explicit WindowState(const Ref<Reactor>& reactor) : reactor_(reactor) {}
  Ref<Reactor> reactor_;
  ibv_mr* region_ = nullptr;
  ibv_mw* window_ = nullptr;
  std::uint32_t key_ = 0;
  unsigned access_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
