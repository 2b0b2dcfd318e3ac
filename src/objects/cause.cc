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

}  // namespace rrdma::objects
