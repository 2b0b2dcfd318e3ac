// SideChannel: the TCP connection by which the two ends of a test tell each other QPNs, keys and when they
// are done. One end listens (side 0), the other connects (side 1); everything blocks, for a minute at most.
#pragma once

#include <cstddef>
#include <string>

#include "arguments.h"

namespace proof {

class SideChannel {
 public:
  // By --listen=PORT or --connect=ADDRESS,PORT.
  static SideChannel open(Arguments& arguments);
  SideChannel(SideChannel&& other) noexcept : fd_(other.fd_), side_(other.side_) { other.fd_ = -1; }
  SideChannel& operator=(SideChannel&&) = delete;
  ~SideChannel();

  [[nodiscard]] unsigned side() const { return side_; }
  void send(const void* octets, std::size_t count);
  void receive(void* octets, std::size_t count);
  // False when the other end is gone.
  [[nodiscard]] bool try_receive(void* octets, std::size_t count);

  template <typename T>
  T trade(const T& ours) {
    send(&ours, sizeof ours);
    T theirs;
    receive(&theirs, sizeof theirs);
    return theirs;
  }
  // Returns when both ends have come here.
  void meet() { (void)trade('m'); }

 private:
  SideChannel(int fd, unsigned side) : fd_(fd), side_(side) {}
  int fd_;
  unsigned side_;
};

}  // namespace proof
