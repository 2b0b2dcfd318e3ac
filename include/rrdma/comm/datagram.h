// Datagram: unreliable, unordered messages of at most one packet, to any peer or multicast group. The library
// adds no header of its own, so the other end may be any program that uses unreliable datagrams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "rrdma/comm/buffer.h"
#include "rrdma/comm/error.h"
#include "rrdma/comm/operation.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

class Context;
class Datagram;

namespace detail {
class DatagramState;
class AddressHandle;
struct DatagramSlot;
struct DatagramPosting;
class MembershipState;
}  // namespace detail

// The number of packets that a Datagram has room for.
struct DatagramProfile {
  std::uint16_t receive_depth = 64;  // packets that can wait for receive(); further packets are lost
  std::uint16_t send_depth = 64;     // sends in flight at a time; further sends wait
};

// A destination. Copyable; valid within its context.
class RRDMA_COMM_API Peer {
 public:
  Peer() = default;
  explicit operator bool() const { return static_cast<bool>(handle_); }
  [[nodiscard]] std::uint32_t queue_number() const { return queue_number_; }

 private:
  friend class Packet;
  friend class Resolving;
  friend class Membership;
  friend class detail::DatagramState;
  detail::Ref<detail::AddressHandle> handle_;
  std::uint32_t queue_number_ = 0;
  std::uint32_t queue_key_ = 0;
};

// A received packet. The destructor returns its memory.
class RRDMA_COMM_API Packet {
 public:
  Packet() = default;
  Packet(Packet&& other) noexcept
      : state_(std::move(other.state_)), slot_(std::exchange(other.slot_, nullptr)) {}
  Packet& operator=(Packet&& other) noexcept {
    if (this != &other) {
      release();
      state_ = std::move(other.state_);
      slot_ = std::exchange(other.slot_, nullptr);
    }
    return *this;
  }
  ~Packet() { release(); }
  explicit operator bool() const { return slot_ != nullptr; }
  [[nodiscard]] std::span<const std::byte> bytes() const;
  [[nodiscard]] std::size_t size() const { return bytes().size(); }
  [[nodiscard]] std::string_view text() const {
    const auto octets = bytes();
    return {reinterpret_cast<const char*>(octets.data()), octets.size()};
  }
  // The sender, as a destination for a reply.
  [[nodiscard]] Result<Peer> sender() const;

 private:
  friend class detail::DatagramState;
  friend class PacketReceiving;
  Packet(detail::Ref<detail::DatagramState> state, detail::DatagramSlot* slot);
  void release() noexcept;
  detail::Ref<detail::DatagramState> state_;
  detail::DatagramSlot* slot_ = nullptr;
};

// A send. The result is the Buffer.
class RRDMA_COMM_API PacketSending final : public Operation {
 public:
  PacketSending(PacketSending&&) noexcept = default;
  ~PacketSending() override;
  Result<Buffer> await_resume();

 private:
  friend class Datagram;
  friend class detail::DatagramState;
  PacketSending(const detail::Ref<detail::DatagramState>& state, const Peer& peer, Buffer buffer,
                Limit limit);
  void begin() override;
  void withdraw() noexcept override;
  detail::Ref<detail::DatagramState> state_;
  detail::DatagramPosting* posting_ = nullptr;
  Peer peer_;
  Buffer buffer_;
};

// Awaits the next packet.
class RRDMA_COMM_API PacketReceiving final : public Operation {
 public:
  PacketReceiving(PacketReceiving&&) noexcept = default;
  ~PacketReceiving() override;
  Result<Packet> await_resume();

 private:
  friend class Datagram;
  friend class detail::DatagramState;
  PacketReceiving(const detail::Ref<detail::DatagramState>& state, Limit limit);
  void begin() override;
  void withdraw() noexcept override;
  detail::Ref<detail::DatagramState> state_;
  Packet packet_;
};

// Awaits the Peer at "host:port".
class RRDMA_COMM_API Resolving final : public Operation {
 public:
  Resolving(Resolving&&) noexcept = default;
  ~Resolving() override;
  Result<Peer> await_resume();

 private:
  friend class Datagram;
  friend class detail::DatagramState;
  struct Search;
  Resolving(const detail::Ref<detail::DatagramState>& state, std::string address, Limit limit);
  void begin() override;
  void withdraw() noexcept override;
  [[nodiscard]] Error error_for(Code code, int detail) const override;
  detail::Ref<detail::DatagramState> state_;
  std::string address_;
  detail::Ref<detail::Counted> search_;
  Peer peer_;
};

// Membership of a Datagram in a multicast group. The destructor leaves the group.
class RRDMA_COMM_API Membership {
 public:
  Membership();
  Membership(Membership&&) noexcept;
  Membership& operator=(Membership&&) noexcept;
  ~Membership();
  // The group as a destination.
  [[nodiscard]] Peer group() const;

 private:
  friend class Joining;
  explicit Membership(detail::Ref<detail::MembershipState> state);
  detail::Ref<detail::MembershipState> state_;
};

// Joins a multicast group. The result is the Membership.
class RRDMA_COMM_API Joining final : public Operation {
 public:
  Joining(Joining&&) noexcept = default;
  ~Joining() override;
  Result<Membership> await_resume();

 private:
  friend class Datagram;
  friend class detail::MembershipState;
  Joining(const detail::Ref<detail::DatagramState>& state, std::string address, Limit limit);
  void begin() override;
  void withdraw() noexcept override;
  [[nodiscard]] Error error_for(Code code, int detail) const override;
  detail::Ref<detail::DatagramState> state_;
  std::string address_;
  detail::Ref<detail::MembershipState> membership_;
};

// An unreliable queue pair at an address. Move-only; belongs to its context's thread. The destructor closes
// it; waiting operations fail with kClosed.
class RRDMA_COMM_API Datagram {
 public:
  // Opens at "host:port" of the context's device. ":port" selects the device's first address, port 0 a free
  // port.
  static Result<Datagram> open(Context& context, std::string_view address,
                               const DatagramProfile& profile = {});
  Datagram(Datagram&&) noexcept;
  Datagram& operator=(Datagram&&) noexcept;
  ~Datagram();

  // Sends one packet. The result is the buffer, once the device has read it.
  [[nodiscard]] PacketSending send(const Peer& peer, Buffer message, Limit limit = {});
  [[nodiscard]] PacketReceiving receive(Limit limit = {});
  // Looks up the queue pair of the Datagram that is open at this address.
  [[nodiscard]] Resolving resolve(std::string_view address, Limit limit = {});
  // Joins the group with this address, for example "239.1.2.3" or "ff1e::1".
  [[nodiscard]] Joining join(std::string_view group, Limit limit = {});

  // The size of the largest message in bytes.
  [[nodiscard]] std::size_t message_limit() const;
  [[nodiscard]] std::string_view address() const;

 private:
  explicit Datagram(detail::Ref<detail::DatagramState> state);
  [[nodiscard]] const detail::Ref<detail::DatagramState>& state_checked() const {
    if (!state_) detail::broken_contract("an operation on a Datagram that was moved from");
    return state_;
  }
  detail::Ref<detail::DatagramState> state_;
};

}  // namespace v0
}  // namespace rrdma::comm
