// Ref<T>: a reference count for one thread. References keep the state behind the public handles alive, so
// handles may be destroyed in any order. A context and its objects live in one thread, so the count is not
// atomic.
#pragma once

#include <cstdint>
#include <utility>

#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

class RRDMA_COMM_API Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 protected:
  virtual ~Counted() = default;

 private:
  template <typename T>
  friend class Ref;
  std::uint32_t references_ = 0;
};

// T may be incomplete if a Ref is only moved and destroyed, as in public headers.
template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) { hold(object_); }
  Ref(const Ref& other) : object_(other.object_) { hold(object_); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { drop(object_); }

  // Manual counting, for owners that keep plain pointers.
  static void hold_one(T* object) { hold(object); }
  static void release_one(T* object) { drop(object); }

  void reset() { drop(std::exchange(object_, nullptr)); }
  [[nodiscard]] T* raw() const { return static_cast<T*>(object_); }
  T* operator->() const { return raw(); }
  T& operator*() const { return *raw(); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  static void hold(Counted* object) {
    if (object != nullptr) ++object->references_;
  }
  static void drop(Counted* object) {
    if (object != nullptr && --object->references_ == 0) delete object;
  }
  Counted* object_ = nullptr;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
