// Completions: a completion queue and the two ways of waiting for it: polling, giving the core away when
// nothing comes, or sleeping in the completion channel as the manual page of ibv_get_cq_event teaches it.
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
  // How many there are in `into`; 0 when the time has passed.
  int wait(ibv_wc* into, int room, double seconds);
  // The next one; ends the program when none comes within `seconds`.
  ibv_wc take(double seconds);

 private:
  int poll(ibv_wc* into, int room);
  int wait_polling(ibv_wc* into, int room, double seconds);
  int wait_sleeping(ibv_wc* into, int room, double seconds);

  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
};

}  // namespace proof
