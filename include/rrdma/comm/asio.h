// AsioDriver: polls a Context from an Asio event loop, so that RDMA and sockets share one thread. It has its
// own header so that other programs do not need Asio. Define ASIO_STANDALONE to use the stand-alone library.
#pragma once

#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <memory>

#include "rrdma/comm/context.h"

namespace rrdma::comm {
inline namespace v0 {

// Drives `context` from `loop` as long as the driver exists. Loop, context and driver belong to the thread
// that runs the loop. The context must outlive the driver.
class AsioDriver {
 public:
  AsioDriver(asio::io_context& loop, Context& context) : state_(std::make_shared<State>(loop, context)) {
    State::turn(state_);
  }
  AsioDriver(const AsioDriver&) = delete;
  AsioDriver& operator=(const AsioDriver&) = delete;
  ~AsioDriver() { state_->stop(); }

 private:
  struct State {
    State(asio::io_context& loop, Context& its_context)
        : context(&its_context), file(loop, its_context.fd()) {}
    ~State() { file.release(); }

    // Polls until there is nothing to do, then waits on the file descriptor. Other handlers of the loop run
    // between two turns.
    static void turn(const std::shared_ptr<State>& self) {
      if (self->context == nullptr) return;
      self->context->poll();
      if (!self->context->arm()) {
        asio::post(self->file.get_executor(), [self] { turn(self); });
        return;
      }
      self->file.async_wait(asio::posix::stream_descriptor::wait_read, [self](const asio::error_code& error) {
        if (!error) turn(self);
      });
    }
    void stop() {
      context = nullptr;
      asio::error_code ignored;
      file.cancel(ignored);
    }

    Context* context;
    asio::posix::stream_descriptor file;
  };
  std::shared_ptr<State> state_;
};

}  // namespace v0
}  // namespace rrdma::comm
