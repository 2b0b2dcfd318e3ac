// Exclusion: a lock that its owner lends an object which several lanes use at a time. Objects have none of their own: an
// engine belongs to whoever calls it, and in a simulation nobody else is there.
#pragma once

namespace rrdma::objects {

class Exclusion {
 public:
  virtual ~Exclusion() = default;
  virtual void lock() = 0;
  virtual void unlock() = 0;
};

// Holds it, if there is one.
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
