// Completions: a completion queue and the two ways of waiting for it. It either polls and yields the core
// when nothing comes, or sleeps in the completion channel as the manual page of ibv_get_cq_event describes.
#pragma once

#include <infiniband/verbs.h>

#include "device.h"

namespace proof {

class Completions {
 public:
  Completions(Device& device, int entries, bool events);
  ~Completions();
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  [[nodiscard]] ibv_cq* cq() const { return cq_; }
  // Returns the number of completions in `into`; 0 on timeout.
  int wait(ibv_wc* into, int room, double seconds);
  // Returns the next completion. Ends the program if none comes within `seconds`.
  ibv_wc take(double seconds);

 private:
  int poll(ibv_wc* into, int room);
  int wait_polling(ibv_wc* into, int room, double seconds);
  int wait_sleeping(ibv_wc* into, int room, double seconds);

  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
};

}  // namespace proof
