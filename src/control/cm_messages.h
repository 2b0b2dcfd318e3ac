// Messages of the connection manager between a program and rrdmad (numbers 0x100 to 0x1ff).
//
// The program identifies its rdma_cm ids by numbers of its own choice (`number`, never 0, never reused).
// Connections are identified by the communication ID that the daemon assigned (`connection`). The first
// message about an incoming connection is a CmEvent with the number of its listener. Messages carry the
// connection manager's own values (cm/values/); cm_values.h lists their fields.
//
//   CmBind -> CmBound           CmListen, CmRelease -> Done
//   CmConnect, CmLookUp -> CmStarted, then events    CmAccept, CmReject, CmDisconnect, ... -> Done
//   CmReady -> CmEstablished: the state that CmRestore passes to the next daemon if this one dies
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

// Reserves a port for an id. A zero address is the wildcard of its family; port 0 requests a free port.
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

// Releases the port of an id and stops listening; connections are not affected.
struct CmRelease {
  static constexpr MessageType kType = cm_message(0x02);
  std::uint32_t number = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.number);
  }
};

// REQUIRES: the id is bound. From now on, calls to its address and port become events.
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

// The queue pair has received a packet before the RTU arrived.
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

// Sends the remaining messages to the peer and releases the connection. No event follows the reply.
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
  std::optional<cm::EstablishedConnection> connection;  // empty: it ended at once

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.connection);
  }
};

// For a daemon that did not establish this connection. Reply: Done, or Failed if it cannot be restored.
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
  std::uint32_t number = 0;  // of the calling id, or of the listener
  cm::Event event;
  std::optional<cm::QpAttributes> attributes;            // with a ConnectRequest and a ConnectReply
  std::optional<cm::EstablishedConnection> established;  // with an Established

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive(self.number, self.event, self.attributes, self.established);
  }
};

}  // namespace rrdma::control
