// Overrun: tests the overflow of a completion queue that is too small for its QP and is never polled. The
// queue raises the overflow event, keeps the completions that fitted and takes no more.
#pragma once

#include <memory>
#include <string>

#include "objects/completion_queue.h"
#include "sim/world.h"

namespace rrdma::sim {

class Exchange;

class Overrun final : private objects::CompletionListener {
 public:
  Overrun(Exchange& exchange, Host& host, Host& other);
  ~Overrun() override;
  // Destroys the QP. Empty if everything was correct.
  std::string finish();

 private:
  void on_completion(objects::CompletionQueue&) override {}
  void on_overflow(objects::CompletionQueue& queue) override;

  Exchange& exchange_;
  Host& host_;
  objects::CompletionQueue queue_;
  objects::AddressHandle handle_;
  transport::QueuePair* qp_ = nullptr;
  std::uint32_t overflows_ = 0;
};

}  // namespace rrdma::sim
