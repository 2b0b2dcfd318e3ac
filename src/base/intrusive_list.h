// IntrusiveList<T, &T::hook>: a doubly linked list through a hook in the element. Insertion and removal never
// allocate. An element knows whether it is linked. The list does not own its elements.
#pragma once

#include "base/assert.h"

namespace rrdma {

struct ListHook {
  ListHook* previous = nullptr;
  ListHook* next = nullptr;

  ListHook() = default;
  ListHook(const ListHook&) = delete;
  ListHook& operator=(const ListHook&) = delete;
  ~ListHook() { RRDMA_ASSERT(!linked()); }

  [[nodiscard]] bool linked() const { return next != nullptr; }
  void unlink() {
    previous->next = next;
    next->previous = previous;
    previous = next = nullptr;
  }
};

template <typename T, ListHook T::*Hook>
class IntrusiveList {
 public:
  IntrusiveList() { head_.previous = head_.next = &head_; }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;
  ~IntrusiveList() {
    while (!empty()) pop_front();
    head_.previous = head_.next = nullptr;
  }

  [[nodiscard]] bool empty() const { return head_.next == &head_; }
  // REQUIRES: the element is in no list through this hook.
  void push_back(T& element) { insert_before(head_, element.*Hook); }
  void push_front(T& element) { insert_before(*head_.next, element.*Hook); }
  [[nodiscard]] T& front() {
    RRDMA_ASSERT(!empty());
    return owner(*head_.next);
  }
  T& pop_front() {
    T& element = front();
    (element.*Hook).unlink();
    return element;
  }
  static void remove(T& element) { (element.*Hook).unlink(); }

 private:
  static void insert_before(ListHook& where, ListHook& hook) {
    RRDMA_ASSERT(!hook.linked());
    hook.previous = where.previous;
    hook.next = &where;
    where.previous->next = &hook;
    where.previous = &hook;
  }
  static T& owner(ListHook& hook) {
    // container_of; offsetof does not accept a member pointer.
    alignas(T) static char storage[sizeof(T)];
    T* probe = reinterpret_cast<T*>(storage);
    const auto offset = reinterpret_cast<char*>(&(probe->*Hook)) - storage;
    return *reinterpret_cast<T*>(reinterpret_cast<char*>(&hook) - offset);
  }
  ListHook head_;
};

}  // namespace rrdma
