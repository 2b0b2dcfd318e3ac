// Exclusion: a lock that an owner lends to an object that several lanes use at once. Objects have no locks of
// their own: an engine belongs to its caller, and a simulation has no concurrency.
#pragma once

namespace rrdma::objects {

class Exclusion {
 public:
  virtual ~Exclusion() = default;
  virtual void lock() = 0;
  virtual void unlock() = 0;
};

// Holds the lock for its lifetime; does nothing without one.
class Excluded {
 public:
  explicit Excluded(Exclusion* exclusion) : exclusion_(exclusion) {
    if (exclusion_ != nullptr) exclusion_->lock();
  }
  ~Excluded() {
    if (exclusion_ != nullptr) exclusion_->unlock();
  }
  Excluded(const Excluded&) = delete;
  Excluded& operator=(const Excluded&) = delete;

 private:
  Exclusion* const exclusion_;
};

}  // namespace rrdma::objects
