// SideChannel: the TCP connection by which the two ends of a test exchange QPNs and keys, and signal that
// they are done. One end listens (side 0), the other connects (side 1). Every call blocks, for at most a
// minute.
#pragma once

#include <cstddef>
#include <string>

#include "arguments.h"

namespace proof {

class SideChannel {
 public:
  // Opens by --listen=PORT or --connect=ADDRESS,PORT.
  static SideChannel open(Arguments& arguments);
  SideChannel(SideChannel&& other) noexcept : fd_(other.fd_), side_(other.side_) { other.fd_ = -1; }
  SideChannel& operator=(SideChannel&&) = delete;
  ~SideChannel();

  [[nodiscard]] unsigned side() const { return side_; }
  void send(const void* octets, std::size_t count);
  void receive(void* octets, std::size_t count);
  // Returns false if the other end is gone.
  [[nodiscard]] bool try_receive(void* octets, std::size_t count);

  template <typename T>
  T trade(const T& ours) {
    send(&ours, sizeof ours);
    T theirs;
    receive(&theirs, sizeof theirs);
    return theirs;
  }
  // Returns when both ends have called it.
  void meet() { (void)trade('m'); }

 private:
  SideChannel(int fd, unsigned side) : fd_(fd), side_(side) {}
  int fd_;
  unsigned side_;
};

}  // namespace proof
