// An intrusive list. Elements may leave at any time, and the destructor of an element removes it. An element
// is in at most one list.
#pragma once

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() { unlink(); }

  [[nodiscard]] bool linked() const { return next_ != nullptr; }
  void unlink() {
    if (next_ == nullptr) return;
    next_->previous_ = previous_;
    previous_->next_ = next_;
    next_ = previous_ = nullptr;
  }

 private:
  template <typename T>
  friend class List;
  Link* next_ = nullptr;
  Link* previous_ = nullptr;
};

// A list of T, which derives from Link. The list does not own its elements.
template <typename T>
class List {
 public:
  List() { head_.next_ = head_.previous_ = &head_; }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  ~List() {
    while (!empty()) head_.next_->unlink();
    head_.next_ = head_.previous_ = nullptr;
  }

  [[nodiscard]] bool empty() const { return head_.next_ == &head_; }
  [[nodiscard]] T* front() { return empty() ? nullptr : static_cast<T*>(head_.next_); }
  // REQUIRES: the element is in no list.
  void push_back(T* element) { insert(element, &head_); }
  void push_front(T* element) { insert(element, head_.next_); }
  T* pop_front() {
    T* element = front();
    if (element != nullptr) static_cast<Link*>(element)->unlink();
    return element;
  }
  // Returns the element after `element`, or null.
  [[nodiscard]] T* after(T* element) {
    Link* next = static_cast<Link*>(element)->next_;
    return next == &head_ ? nullptr : static_cast<T*>(next);
  }
  void insert_before(T* element, T* position) {
    insert(element, position != nullptr ? static_cast<Link*>(position) : &head_);
  }
  // Moves all elements of `other` to the end of this list.
  void splice(List& other) {
    if (other.empty()) return;
    Link* first = other.head_.next_;
    Link* last = other.head_.previous_;
    other.head_.next_ = other.head_.previous_ = &other.head_;
    first->previous_ = head_.previous_;
    head_.previous_->next_ = first;
    last->next_ = &head_;
    head_.previous_ = last;
  }

 private:
  static void insert(Link* link, Link* before) {
    link->next_ = before;
    link->previous_ = before->previous_;
    before->previous_->next_ = link;
    before->previous_ = link;
  }
  Link head_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
