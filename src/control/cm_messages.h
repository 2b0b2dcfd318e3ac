// Messages of the connection manager between a program and rrdmad.
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

enum class CmFamily : std::uint8_t { kIpv4, kIpv6 };
template <>
struct LastOf<CmFamily> {
  static constexpr CmFamily kLast = CmFamily::kIpv6;
};

// Reserves a port for an id. A zero address is the wildcard of its family; port 0 requests a free port.
struct CmBind {
  static constexpr MessageType kType = MessageType::kCmBind;
  std::uint32_t number = 0;
  wire::PortSpace port_space = wire::PortSpace::kTcp;
  CmFamily family = CmFamily::kIpv4;
  bool reuse = false;
  bool family_only = false;
  wire::Gid address;
  std::uint16_t port = 0;

  static void fields(auto& archive, auto& self) {
    archive.number(self.port_space);
    archive(self.number, self.family, self.reuse, self.family_only, self.address, self.port);
  }
};

struct CmBound {
  static constexpr MessageType kType = MessageType::kCmBound;
  std::uint16_t port = 0;

  static void fields(auto& archive, auto& self) { archive(self.port); }
};

// Releases the port of an id and stops listening; connections are not affected.
struct CmRelease {
  static constexpr MessageType kType = MessageType::kCmRelease;
  std::uint32_t number = 0;

  static void fields(auto& archive, auto& self) { archive(self.number); }
};

// REQUIRES: the id is bound. From now on, calls to its address and port become events.
struct CmListen {
  static constexpr MessageType kType = MessageType::kCmListen;
  std::uint32_t number = 0;
  std::uint32_t backlog = 0;

  static void fields(auto& archive, auto& self) { archive(self.number, self.backlog); }
};

struct CmConnect {
  static constexpr MessageType kType = MessageType::kCmConnect;
  std::uint32_t number = 0;
  cm::ConnectParameters parameters;

  static void fields(auto& archive, auto& self) { archive(self.number, self.parameters); }
};

struct CmStarted {
  static constexpr MessageType kType = MessageType::kCmStarted;
  cm::ConnectionId connection;

  static void fields(auto& archive, auto& self) { archive(self.connection); }
};

// Looks up a UD service (SIDR).
struct CmLookUp {
  static constexpr MessageType kType = MessageType::kCmLookUp;
  std::uint32_t number = 0;
  cm::LookupParameters parameters;

  static void fields(auto& archive, auto& self) { archive(self.number, self.parameters); }
};

struct CmAccept {
  static constexpr MessageType kType = MessageType::kCmAccept;
  cm::ConnectionId connection;
  cm::AcceptParameters parameters;

  static void fields(auto& archive, auto& self) { archive(self.connection, self.parameters); }
};

struct CmReject {
  static constexpr MessageType kType = MessageType::kCmReject;
  cm::ConnectionId connection;
  cm::RejectParameters parameters;

  static void fields(auto& archive, auto& self) { archive(self.connection, self.parameters); }
};

// The answer to a SIDR_REQ.
struct CmReplyLookUp {
  static constexpr MessageType kType = MessageType::kCmReplyLookUp;
  cm::ConnectionId connection;
  cm::LookupReplyParameters parameters;

  static void fields(auto& archive, auto& self) { archive(self.connection, self.parameters); }
};

// The queue pair of the calling side is ready: sends the RTU. Reply: CmEstablished.
struct CmReady {
  static constexpr MessageType kType = MessageType::kCmReady;
  cm::ConnectionId connection;

  static void fields(auto& archive, auto& self) { archive(self.connection); }
};

// The queue pair has received a packet before the RTU arrived.
struct CmNotify {
  static constexpr MessageType kType = MessageType::kCmNotify;
  cm::ConnectionId connection;

  static void fields(auto& archive, auto& self) { archive(self.connection); }
};

struct CmDisconnect {
  static constexpr MessageType kType = MessageType::kCmDisconnect;
  cm::ConnectionId connection;

  static void fields(auto& archive, auto& self) { archive(self.connection); }
};

// Sends the remaining messages to the peer and releases the connection. No event follows the reply.
struct CmDestroy {
  static constexpr MessageType kType = MessageType::kCmDestroy;
  cm::ConnectionId connection;

  static void fields(auto& archive, auto& self) { archive(self.connection); }
};

struct CmEstablished {
  static constexpr MessageType kType = MessageType::kCmEstablished;
  std::optional<cm::EstablishedConnection> connection;  // empty: it ended at once

  static void fields(auto& archive, auto& self) { archive(self.connection); }
};

// For a daemon that did not establish this connection. Reply: Done, or Failed if it cannot be restored.
struct CmRestore {
  static constexpr MessageType kType = MessageType::kCmRestore;
  std::uint32_t number = 0;
  cm::EstablishedConnection connection;

  static void fields(auto& archive, auto& self) { archive(self.number, self.connection); }
};

struct CmEvent {
  static constexpr MessageType kType = MessageType::kCmEvent;
  std::uint32_t number = 0;  // of the calling id, or of the listener
  cm::Event event;
  std::optional<cm::QpAttributes> attributes;            // with a ConnectRequest and a ConnectReply
  std::optional<cm::EstablishedConnection> established;  // with an Established

  static void fields(auto& archive, auto& self) {
    archive(self.number, self.event, self.attributes, self.established);
  }
};

}  // namespace rrdma::control
