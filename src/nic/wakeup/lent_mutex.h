// LentMutex: a mutex that nic/ lends to objects that several lanes share.
#pragma once

#include <mutex>

#include "objects/exclusion.h"

namespace rrdma::nic {

class LentMutex final : public objects::Exclusion {
 public:
  void lock() override { mutex_.lock(); }
  void unlock() override { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace rrdma::nic
