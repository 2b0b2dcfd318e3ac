#include "objects/cause.h"

namespace rrdma::objects {

std::string_view describe(Cause cause) {
  switch (cause) {
    case Cause::kNone: return "no cause was recorded";
    case Cause::kLocalKeyUnknown: return "the lkey of a scatter/gather element names no registered memory";
    case Cause::kLocalKeyOtherDomain: return "the lkey belongs to another protection domain than the QP";
    case Cause::kLocalOutOfBounds: return "a scatter/gather element reaches outside its memory region";
    case Cause::kLocalNotWritable:
      return "the memory region of a scatter/gather element lacks IBV_ACCESS_LOCAL_WRITE";
    case Cause::kLocalMemoryFault: return "registered memory of this side is no longer mapped";
    case Cause::kMessageTooLong: return "the message is longer than the transport or the port allows";
    case Cause::kReceiveBufferTooSmall: return "the message is longer than the receive request that it met";
    case Cause::kOperationNotAllowed: return "the operation is not allowed on this QP";
    case Cause::kWindowBindRefused:
      return "the memory window cannot be bound to that memory with those rights";
    case Cause::kInvalidateRefused:
      return "the key to invalidate names no bound type 2 memory window of this QP";
    case Cause::kPathUnusable: return "no link can carry packets to the peer's address";
    case Cause::kPeerSaidInvalidRequest: return "the peer answered NAK: invalid request";
    case Cause::kPeerSaidAccessError: return "the peer answered NAK: remote access error";
    case Cause::kPeerSaidOperationalError: return "the peer answered NAK: remote operational error";
    case Cause::kPeerNotReady: return "the peer had no receive request posted, rnr_retry times in a row";
    case Cause::kPeerSilent: return "the peer did not acknowledge within timeout, retry_cnt times in a row";
    case Cause::kPeerBadResponse: return "the peer's response does not fit the request";
    case Cause::kPeerKeepsNaking: return "the peer asked for the same packet again, retry_cnt times in a row";
    case Cause::kPeerGone: return "the peer process has ended";
    case Cause::kRemoteKeyUnknown: return "the rkey names no registered memory or bound window";
    case Cause::kRemoteKeyOtherDomain: return "the rkey belongs to another protection domain than the QP";
    case Cause::kRemoteKeyOtherQueuePair: return "the rkey is a type 2 window bound through another QP";
    case Cause::kRemoteOutOfBounds: return "the request reaches outside the memory that the rkey grants";
    case Cause::kRemoteAccessNotGranted:
      return "the memory behind the rkey does not grant this kind of access";
    case Cause::kRemoteMemoryFault: return "the registered memory behind the rkey is no longer mapped";
    case Cause::kRequestOpcodeUnexpected:
      return "the packet's opcode does not continue the message in progress";
    case Cause::kRequestLengthWrong:
      return "the packet's payload length does not fit its opcode, MTU or message";
    case Cause::kRequestNotEnabled: return "the QP's access flags or type do not allow this operation";
    case Cause::kAtomicMisaligned: return "the address of an atomic operation is not a multiple of eight";
    case Cause::kTooManyReads: return "more READs and ATOMICs at once than max_dest_rd_atomic";
    case Cause::kRemoteInvalidateRefused:
      return "SEND with invalidate named a key that cannot be invalidated";
    case Cause::kFlushed:
      return "the QP had already failed or was moved to the error state; look at its first failed completion";
    case Cause::kQueuePairDestroyed: return "the QP was destroyed or reset";
  }
  return "a cause that this version does not know";
}

namespace {

// For requests that this side posted.
std::string_view remedy_here(Cause cause) {
  switch (cause) {
    case Cause::kNone: return "Look at the other side, too.";
    case Cause::kLocalKeyUnknown:
      return "Give the lkey that ibv_reg_mr returned, and deregister only after the completion.";
    case Cause::kLocalKeyOtherDomain: return "Register the memory in the protection domain of the QP.";
    case Cause::kLocalOutOfBounds: return "Compare addr and length of the sg_list with the ibv_mr.";
    case Cause::kLocalNotWritable:
      return "Register memory that receives or READs write to with IBV_ACCESS_LOCAL_WRITE.";
    case Cause::kLocalMemoryFault:
      return "Keep memory mapped until its requests have completed and it is deregistered.";
    case Cause::kMessageTooLong: return "Send less at once: max_msg_sz of the port; on UD one MTU.";
    case Cause::kReceiveBufferTooSmall:
      return "Post receives as long as the longest message of the peer; on UD 40 bytes more.";
    case Cause::kOperationNotAllowed:
      return "Choose an operation of this QP type; READs and atomics need max_rd_atomic above 0.";
    case Cause::kWindowBindRefused:
      return "Bind within a region of the same protection domain that has IBV_ACCESS_MW_BIND and the rights "
             "asked "
             "for.";
    case Cause::kInvalidateRefused: return "Invalidate only an rkey that was bound through this QP.";
    case Cause::kPathUnusable: return "`rrdma doctor` shows whether interface and address are still there.";
    case Cause::kPeerSaidInvalidRequest:
      return "Compare length and operation with the peer's receives, qp_access_flags and max_dest_rd_atomic; "
             "`rrdma explain` there names the cause.";
    case Cause::kPeerSaidAccessError:
      return "Compare remote_addr, rkey and length with the peer's ibv_mr and its access rights; `rrdma "
             "explain` "
             "there "
             "names the cause.";
    case Cause::kPeerSaidOperationalError:
      return "Look at the peer's failed receive: `rrdma explain` there names the cause.";
    case Cause::kPeerNotReady: return "Post receives at the peer before sending, or set rnr_retry to 7.";
    case Cause::kPeerSilent:
      return "Check that the peer runs and its QP is connected to this one (QPN, GID); `rrdma doctor --peer` "
             "asks "
             "its host.";
    case Cause::kPeerBadResponse:
      return "Capture it with `rrdma capture`, and compare path_mtu of both sides.";
    case Cause::kPeerKeepsNaking:
      return "Compare rq_psn of the peer with sq_psn here, and path_mtu of both sides.";
    case Cause::kPeerGone: return "Look at why the peer's process has ended.";
    default: return {};
  }
}

// For requests of the peer that this side refused.
std::string_view remedy_for_the_peer(Cause cause) {
  switch (cause) {
    case Cause::kRemoteKeyUnknown:
      return "Tell the peer the rkey of this side's ibv_mr, and keep it registered while the peer uses it.";
    case Cause::kRemoteKeyOtherDomain: return "Register the memory in the protection domain of the QP.";
    case Cause::kRemoteKeyOtherQueuePair:
      return "Bind the window through the QP that the peer is connected to.";
    case Cause::kRemoteOutOfBounds:
      return "Compare the peer's remote_addr and length with this side's ibv_mr.";
    case Cause::kRemoteAccessNotGranted:
      return "Register the memory with IBV_ACCESS_REMOTE_WRITE, _READ or _ATOMIC.";
    case Cause::kRemoteMemoryFault: return "Keep memory mapped until it is deregistered.";
    case Cause::kRequestOpcodeUnexpected:
    case Cause::kRequestLengthWrong:
      return "Compare path_mtu of both sides; if they agree, capture it with `rrdma capture`.";
    case Cause::kRequestNotEnabled: return "Allow the operation in qp_access_flags when the QP goes to INIT.";
    case Cause::kAtomicMisaligned: return "Give an address that is a multiple of eight.";
    case Cause::kTooManyReads:
      return "Keep the peer's max_rd_atomic at or below max_dest_rd_atomic of this side.";
    case Cause::kRemoteInvalidateRefused:
      return "Let the peer invalidate only an rkey of a window that is bound through this QP.";
    case Cause::kFlushed:
    case Cause::kQueuePairDestroyed: return "Look at the first failed completion of the QP.";
    default: return {};
  }
}

}  // namespace

std::string_view remedy(Cause cause) {
  const std::string_view here = remedy_here(cause);
  if (!here.empty()) return here;
  const std::string_view for_the_peer = remedy_for_the_peer(cause);
  return for_the_peer.empty() ? "Look at the other side, too." : for_the_peer;
}

}  // namespace rrdma::objects
