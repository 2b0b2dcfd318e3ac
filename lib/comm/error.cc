// Error texts: a table with the meaning and the remedy of each code.
#include "rrdma/comm/error.h"

#include <infiniband/verbs.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rrdma::comm {
inline namespace v0 {
namespace {

struct Words {
  const char* name;
  const char* what;
  const char* remedy;
};

Words words_of(Code code) {
  switch (code) {
    case Code::kNoDevice:
      return {"no device", "there is no RDMA device to use",
              "see `ibv_devices`; without hardware, install RRDMA or run `rrdma run -- PROGRAM`"};
    case Code::kBadAddress:
      return {"bad address", "this is no address that can be used",
              "write host:port, for example 10.0.0.1:7000, [::1]:7000 or name:7000"};
    case Code::kUnreachable:
      return {"unreachable", "nobody answers",
              "check the address, its route (`ip route get ADDRESS`) and the interface of the device"};
    case Code::kRefused:
      return {"refused", "the connection was refused",
              "start the server first, and check the port; the note says what the server said"};
    case Code::kVersion:
      return {"version", "the peer speaks another protocol or another version of it",
              "run the same version of rrdma::comm at both ends"};
    case Code::kClosed:
      return {"closed", "this end was closed",
              "begin no operation after close or abort, and keep the Context while its endpoints work"};
    case Code::kClosedByPeer:
      return {"closed by the peer", "the peer has closed the connection",
              "everything it sent was received; connect again if there is more to do"};
    case Code::kPeerGone:
      return {"peer gone", "the peer is gone",
              "it ended without closing, or its network is down; connect again and repeat what was lost"};
    case Code::kCancelled:
      return {"cancelled", "it was cancelled",
              "a stop was requested; what was already posted may still take effect"};
    case Code::kDeadline:
      return {"deadline", "the time was over",
              "allow more time, or find out why the peer is slow; a posted request may still take effect"};
    case Code::kTooLarge:
      return {"too large", "it is too large",
              "send less at a time, raise Profile::message_limit at the receiver, or use read and write"};
    case Code::kNoMemory:
      return {"no memory", "there is no memory for it",
              "raise PoolOptions::limit, release buffers, or raise the limit of locked memory (`ulimit -l`)"};
    case Code::kNotSupported:
      return {"not supported", "the device cannot do it", "see Device for what it can do"};
    case Code::kRemoteAccess:
      return {"remote access", "the peer's memory is not open for this",
              "check the bounds, the access it was shared with, and that its Share still lives"};
    case Code::kLocalAccess:
      return {"local access", "our memory is not open for this",
              "this is a fault of the library: please report it"};
    case Code::kProtocol:
      return {"protocol", "the peer broke the protocol",
              "the peer is not this library, or its memory was damaged; the connection was ended"};
    case Code::kInvalid: return {"invalid", "the call is not valid", "see the function's description"};
    case Code::kSystem:
      return {"system", "a call of the system failed",
              "see the number in parentheses; `rrdma explain` knows more on RRDMA"};
    case Code::kInUse:
      return {"in use", "this address is in use",
              "another program or Listener uses the port: stop it, or choose another port (0: a free one)"};
  }
  return {"unknown", "unknown", ""};
}

}  // namespace

std::string_view name_of(Code code) { return words_of(code).name; }

std::string_view name_of(During during) {
  switch (during) {
    case During::kOpen: return "open";
    case During::kConnect: return "connect";
    case During::kListen: return "listen";
    case During::kAccept: return "accept";
    case During::kSend: return "send";
    case During::kReceive: return "receive";
    case During::kRead: return "read";
    case During::kWrite: return "write";
    case During::kAtomic: return "atomic operation";
    case During::kClose: return "close";
    case During::kTake: return "take";
    case During::kShare: return "share";
    case During::kBind: return "bind";
    case During::kJoin: return "join";
    case During::kSleep: return "sleep";
    case During::kCall: return "call";
  }
  return "call";
}

std::string Error::what() const {
  std::string text(name_of(during_));
  if (!peer().empty()) {
    text += during_ == During::kReceive || during_ == During::kRead                                ? " from "
            : during_ == During::kListen || during_ == During::kAccept || during_ == During::kOpen ? " at "
                                                                                                   : " to ";
    text += peer();
  }
  text += ": ";
  text += words_of(code_).what;
  const bool status = code_ == Code::kPeerGone || code_ == Code::kRemoteAccess ||
                      code_ == Code::kLocalAccess || code_ == Code::kProtocol;
  std::string more(note());
  if (detail_ != 0 && code_ != Code::kRefused && code_ != Code::kVersion) {
    if (!more.empty()) more += ", ";
    more += status ? ibv_wc_status_str(static_cast<ibv_wc_status>(detail_)) : std::strerror(detail_);
  }
  if (!more.empty()) text += " (" + more + ")";
  return text;
}

std::string_view Error::remedy() const { return words_of(code_).remedy; }

Failure::Failure(Error error) : std::runtime_error(error.what()), error_(std::move(error)) {}
Failure::~Failure() = default;

namespace detail {

void broken_contract(const char* what, const Error* error) {
  std::fprintf(stderr, "rrdma::comm: %s%s%s\n", what, error != nullptr ? ": " : "",
               error != nullptr ? error->what().c_str() : "");
  std::abort();
}

void no_value(const std::string& error) {
  std::fprintf(stderr, "rrdma: value() of a Result that holds an error: %s\n", error.c_str());
  std::abort();
}
void no_error() { broken_contract("error() of a Result that holds a value"); }

void throw_failure(Error error) { throw Failure(std::move(error)); }

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
