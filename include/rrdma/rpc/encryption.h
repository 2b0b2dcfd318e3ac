// Encryption: when a connection is encrypted. Needs the shared secret of ChannelOptions and ServerOptions.
#pragma once

#include <cstdint>

namespace rrdma::rpc {
inline namespace v0 {

// An end never continues with less than it demands. If either end demands encryption, the connection is
// encrypted, or refused if the other end cannot encrypt. One-sided operations of rrdma::comm that a program
// makes beside its calls are not encrypted.
enum class Encryption : std::uint8_t {
  kNever,       // refuse peers that demand it
  kOtherHosts,  // demand it if the peer has another address than this host
  kAlways,      // demand it
};

}  // namespace v0
}  // namespace rrdma::rpc
