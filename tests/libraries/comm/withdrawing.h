// Gives up operations in every way: by destruction, a stop or a deadline.
#pragma once

#include <functional>

#include "tests/libraries/comm/world.h"

namespace comm_test {

class Withdrawing : public World {
 protected:
  // Runs `make` for each way of giving up, after each number of polls.
  void each_way(const std::function<Task<bool>(std::stop_token, Limit)>& make) {
    for (int polls = 0; polls < 12; ++polls) {
      {
        auto task = make({}, {});
        task.start(std::noop_coroutine());
        for (int i = 0; i < polls; ++i) context_.poll();
      }
      std::stop_source source;
      auto stopped = make(source.get_token(), Limit(source.get_token()));
      stopped.start(std::noop_coroutine());
      for (int i = 0; i < polls; ++i) context_.poll();
      source.request_stop();
      EXPECT_TRUE(context_.run_until([&] { return stopped.done(); }, Clock::now() + kPatience));
      auto late = make({}, Limit(std::chrono::microseconds(polls * 20)));
      late.start(std::noop_coroutine());
      EXPECT_TRUE(context_.run_until([&] { return late.done(); }, Clock::now() + kPatience));
    }
  }
  void exchange_is_sound(Pair& pair) {
    const auto receiver = [](Endpoint& end) -> Task<> {
      for (;;) {
        Message message = (co_await end.receive(kPatience)).value_or_throw();
        if (message.text() == "still here") co_return;
      }
    };
    auto [sent, received] = run(when_all(pair.client.send("still here", kPatience), receiver(pair.server)));
    EXPECT_TRUE(sent.ok());
  }
};

}  // namespace comm_test
