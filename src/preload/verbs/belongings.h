// Belongings: what a program has made in a context and not destroyed yet. Closing the device destroys it, as
// the kernel does when its last descriptor goes: nothing of a closed context sends, answers or reports.
//
// Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace rrdma::verbs {

struct Context;

// In the order in which they can be destroyed: nothing stands on what comes before it.
enum class Thing : unsigned char {
  kQp,
  kAh,
  kSrq,
  kCq,
  kChannel,
  kXrcDomain,
  kWindow,
  kRegion,
  kDeviceMemory,
  kDomain,
  kThreadDomain
};

class Belongings {
 public:
  void add(Thing kind, void* object);
  void remove(Thing kind, void* object);
  [[nodiscard]] std::vector<void*> list(Thing kind) const;

 private:
  static constexpr std::size_t kKinds = static_cast<std::size_t>(Thing::kThreadDomain) + 1;

  mutable std::mutex mutex_;
  std::array<std::unordered_set<void*>, kKinds> objects_;
};

// Destroys all that is left. Does not wait for acknowledgements of events that the program took: nobody can
// give them any more.
void destroy_belongings(Context& context);

}  // namespace rrdma::verbs
