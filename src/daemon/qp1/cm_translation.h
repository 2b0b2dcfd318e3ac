// Between the control protocol's words and those of cm/: the same things, once as octets of a message and
// once as types.
#pragma once

#include "cm/endpoint.h"
#include "control/cm_messages.h"

namespace rrdma::daemon {

[[nodiscard]] cm::Route route_of(const control::CmRoute& route);
[[nodiscard]] control::CmRoute message_of(const cm::Route& route);
[[nodiscard]] std::optional<wire::IpCmHeader> header_of(const control::CmAddresses& addresses);
[[nodiscard]] cm::ConnectParameters parameters_of(const control::CmConnect& connect, cm::OwnerToken owner);
[[nodiscard]] cm::AcceptParameters parameters_of(const control::CmAccept& accept);
[[nodiscard]] cm::LookupParameters parameters_of(const control::CmLookUp& look_up, cm::OwnerToken owner);
[[nodiscard]] cm::LookupReplyParameters parameters_of(const control::CmReplyLookUp& reply);
[[nodiscard]] control::CmEstablished message_of(const cm::EstablishedConnection& connection);
[[nodiscard]] cm::EstablishedConnection connection_of(const control::CmEstablished& message);
[[nodiscard]] control::CmQpAttributes message_of(const cm::QpAttributes& attributes);
// Without what only the Endpoint knows: attributes and established.
[[nodiscard]] control::CmEvent message_of(const cm::Event& event);
// The errno that a program sees.
[[nodiscard]] int errno_of(cm::Error error);

}  // namespace rrdma::daemon
