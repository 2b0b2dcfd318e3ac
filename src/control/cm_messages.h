// Messages of the connection manager between a program and rrdmad (numbers 0x100 to 0x1ff).
//
// The program names its rdma_cm ids by numbers of its own choice (`number`, never 0, never used twice);
// connections are named by the communication ID that the daemon gave out (`connection`). An incoming
// connection is first heard of in a CmEvent with the number of its listener. What is asked and told is
// said in the connection manager's own values (cm/values/); cm_values.h lists their fields.
//
//   CmBind -> CmBound           CmListen, CmRelease -> Done
//   CmConnect, CmLookUp -> CmStarted, then events    CmAccept, CmReject, CmDisconnect, ... -> Done
//   CmReady -> CmEstablished: what CmRestore tells the next daemon if this one dies
#pragma once

#include <cstdint>
#include <optional>

#include "control/cm_values.h"
#include "control/messages.h"
#include "wire/cm_ip_header.h"

namespace rrdma::control {

constexpr MessageType cm_message(std::uint16_t index) {
  return static_cast<MessageType>(static_cast<std::uint16_t>(MessageType::kCmFirst) + index);
}

enum class CmFamily : std::uint8_t { kIpv4, kIpv6 };
template <>
struct LastOf<CmFamily> {
  static constexpr CmFamily kLast = CmFamily::kIpv6;
};

// Takes a port for an id. A zero address is the wildcard of its family; port 0 asks for a free one.
struct CmBind {
  static constexpr MessageType kType = cm_message(0x00);
  std::uint32_t number = 0;
  wire::PortSpace port_space = wire::PortSpace::kTcp;
  CmFamily family = CmFamily::kIpv4;
  bool reuse = false;
  bool family_only = false;
  wire::Gid address;
  std::uint16_t port = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.number(self.port_space);
    archive(self.number, self.family, self.reuse, self.family_only, self.address, self.port);
  }
};

struct CmBound {
  static constexpr MessageType kType = cm_message(0x01);
  std::uint16_t port = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.port);
  }
};

// Gives up the port of an id and stops listening; connections are not touched.
struct CmRelease {
  static constexpr MessageType kType = cm_message(0x02);
  std::uint32_t number = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.number);
  }
};

// REQUIRES: the id is bound. Calls to its address and port become events from now on.
struct CmListen {
  static constexpr MessageType kType = cm_message(0x03);
  std::uint32_t number = 0;
  std::uint32_t backlog = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.number, self.backlog);
  }
};

struct CmConnect {
  static constexpr MessageType kType = cm_message(0x04);
  std::uint32_t number = 0;
  cm::ConnectParameters parameters;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.number, self.parameters);
  }
};

struct CmStarted {
  static constexpr MessageType kType = cm_message(0x05);
  cm::ConnectionId connection;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.connection);
  }
};

// Looks up a UD service (SIDR).
struct CmLookUp {
  static constexpr MessageType kType = cm_message(0x06);
  std::uint32_t number = 0;
  cm::LookupParameters parameters;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.number, self.parameters);
  }
};

struct CmAccept {
  static constexpr MessageType kType = cm_message(0x07);
  cm::ConnectionId connection;
  cm::AcceptParameters parameters;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.connection, self.parameters);
  }
};

struct CmReject {
  static constexpr MessageType kType = cm_message(0x08);
  cm::ConnectionId connection;
  cm::RejectParameters parameters;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.connection, self.parameters);
  }
};

// The answer to a SIDR_REQ.
struct CmReplyLookUp {
  static constexpr MessageType kType = cm_message(0x09);
  cm::ConnectionId connection;
  cm::LookupReplyParameters parameters;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.connection, self.parameters);
  }
};

// The queue pair of the calling side is ready: sends the RTU. Reply: CmEstablished.
struct CmReady {
  static constexpr MessageType kType = cm_message(0x0a);
  cm::ConnectionId connection;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.connection);
  }
};

// The queue pair has received something before the RTU came.
struct CmNotify {
  static constexpr MessageType kType = cm_message(0x0b);
  cm::ConnectionId connection;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.connection);
  }
};

struct CmDisconnect {
  static constexpr MessageType kType = cm_message(0x0c);
  cm::ConnectionId connection;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.connection);
  }
};

// Says what is left to say to the peer, and forgets the connection. No event comes after the reply.
struct CmDestroy {
  static constexpr MessageType kType = cm_message(0x0d);
  cm::ConnectionId connection;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.connection);
  }
};

struct CmEstablished {
  static constexpr MessageType kType = cm_message(0x0e);
  std::optional<cm::EstablishedConnection> connection;  // nothing: it was over at once

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.connection);
  }
};

// To a daemon that did not see this connection being made. Reply: Done, or Failed if it cannot stand.
struct CmRestore {
  static constexpr MessageType kType = cm_message(0x0f);
  std::uint32_t number = 0;
  cm::EstablishedConnection connection;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.number, self.connection);
  }
};

struct CmEvent {
  static constexpr MessageType kType = cm_message(0x20);
  std::uint32_t number = 0;  // of the id that called, or of the listener
  cm::Event event;
  std::optional<cm::QpAttributes> attributes;            // of a ConnectRequest and a ConnectReply
  std::optional<cm::EstablishedConnection> established;  // of an Established

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.number, self.event, self.attributes, self.established);
  }
};

}  // namespace rrdma::control
