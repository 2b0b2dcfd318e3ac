// The field tree of BTH and extension headers. See packet_fields.h.
#include "base/format.h"
#include "dissection/packet_fields.h"
#include "wire/rnr_timer.h"

namespace rrdma::wire {
namespace {

constexpr std::string_view kRemoteKeyMeaning =
    "The key that the owner of the memory gave out; it names region and rights.";

// The purpose of a packet of this kind.
std::string_view kind_meaning(Kind kind) {
  switch (kind) {
    case Kind::kSend: return "Data for the receive buffer that the other side posted next.";
    case Kind::kWrite: return "Data for memory of the other side, whose program takes no part.";
    case Kind::kReadRequest:
      return "Asks for data from memory of the other side; the answer takes as many PSNs as it has packets.";
    case Kind::kReadResponse: return "Data that a READ asked for (or the answer to FLUSH and ATOMIC WRITE).";
    case Kind::kAcknowledge:
      return "Acknowledges all requests up to its PSN, or refuses the one with its PSN.";
    case Kind::kAtomicAcknowledge: return "Gives back what the memory held before the atomic operation.";
    case Kind::kAtomic: return "Changes 8 bytes of memory of the other side in one indivisible step.";
    case Kind::kFlush: return "Asks that earlier WRITEs be visible to all, or persistent, before the answer.";
    case Kind::kAtomicWrite: return "Writes 8 bytes in one indivisible step, after all earlier requests.";
    case Kind::kArrivals:
      return "Between RRDMA ends: which requests beyond its PSN have arrived and wait for those that are "
             "missing.";
    case Kind::kCongestion: return "Congestion notification: asks the sender of a QP to slow down.";
    case Kind::kUnknown: break;
  }
  return "Reserved.";
}

void add_bth(Field& parent, const Bth& bth) {
  Field& group = parent.add_group(
      "bth", "BTH", octets_text(kBthOctets),
      "The base transport header: what the packet is, for which QP, and its place in the sequence.");
  group.add("opcode", "Opcode", std::uint32_t{bth.opcode.value}, formatted("0x{:02x}", bth.opcode.value),
            kind_meaning(shape_of(bth.opcode).kind));
  group.add_text("opcode_name", "Name", std::string(opcode_name(bth.opcode)),
                 "FIRST, MIDDLE and LAST are packets of one message; ONLY is a message in one packet.");
  group.add_flag("solicited", "Solicited event", bth.solicited,
                 "Wakes a receiver that armed its completion queue for solicited events only.");
  group.add_flag(
      "migration", "Migration request", bth.migration,
      "Automatic path migration; hardware sends 1 (migrated), the Linux rxe 0: receivers take both.");
  group.add_number("pad", "Pad count", bth.pad, "Bytes between the payload and the ICRC that are no data.");
  group.add_number("version", "Transport version", bth.version, "Always 0.");
  group.add_hex("pkey", "P_Key", bth.pkey, 4,
                "The partition; 0xffff is the default one, and RoCE hardly uses others.");
  group.add_flag("fecn", "FECN", bth.fecn,
                 "Congestion was met on the way here (RoCE v2 uses the ECN bits of IP instead).");
  group.add_flag("becn", "BECN", bth.becn, "Congestion on the way back: set in CNPs.");
  group.add_hex("destination_qp", "Destination QP", bth.destination.value, 6,
                "The queue pair that this packet is for; 1 is the connection manager's, 0xffffff multicast.");
  group.add_flag(
      "ack_request", "Acknowledge request", bth.ack_request,
      "The sender wants an ACK for this packet; without it the receiver may wait for a later one.");
  group.add_number(
      "psn", "PSN", bth.psn.value,
      "The packet sequence number, modulo 2^24: requests count up, answers repeat the number they answer.");
}

void add_deth(Field& parent, const Deth& deth) {
  Field& group =
      parent.add_group("deth", "DETH", octets_text(kDethOctets),
                       "The datagram header: a UD QP talks to many, so each packet names its sender.");
  group.add_hex("qkey", "Q_Key", deth.qkey.value, 8,
                "Must equal the receiving QP's, else the packet is dropped; 0x80010000 is that of QP 1.");
  group.add_hex("source_qp", "Source QP", deth.source.value, 6, "Where an answer goes.");
}

void add_xrceth(Field& parent, const XrcEth& xrceth) {
  parent
      .add_group("xrceth", "XRCETH", octets_text(kXrcEthOctets),
                 "Extended RC: one connection serves all receive queues of a process.")
      .add_hex("srq", "XRC SRQ", xrceth.srq, 6, "The shared receive queue that the request is for.");
}

void add_feth(Field& parent, const Feth& feth) {
  Field& group = parent.add_group("feth", "FETH", flush_text(feth),
                                  "Which memory a FLUSH is about, and what is asked for.");
  group.add("placement", "Placement type", std::uint32_t{feth.placement()},
            formatted("0x{:x}", feth.placement()),
            "Bit 0: visible to all readers; bit 1: survives loss of power.");
  group.add("selectivity", "Selectivity", std::uint32_t{feth.selectivity()},
            formatted("{}", feth.selectivity()), "0: the range of the RETH; 1: the whole memory region.");
}

void add_reth(Field& parent, const Reth& reth) {
  Field& group = parent.add_group("reth", "RETH", octets_text(kRethOctets),
                                  "The RDMA header: which memory of the other side, for the whole message.");
  group.add_hex("address", "Virtual address", reth.address, 16,
                "In the address space of the other side's program.");
  group.add_hex("rkey", "R_Key", reth.rkey.value, 8, kRemoteKeyMeaning);
  group.add_number("length", "DMA length", reth.length, "Bytes of the whole message, not of this packet.");
}

void add_atomic_eth(Field& parent, const AtomicEth& atomic, Step step) {
  const bool swap = step == Step::kCompareSwap;
  Field& group = parent.add_group("atomic_eth", "AtomicETH", octets_text(kAtomicEthOctets),
                                  "Which 8 bytes of the other side, and the operands.");
  group.add_hex("address", "Virtual address", atomic.address, 16, "Must be a multiple of 8.");
  group.add_hex("rkey", "R_Key", atomic.rkey.value, 8, kRemoteKeyMeaning);
  group.add_hex("swap_or_add", swap ? "Swap" : "Add", atomic.swap_or_add, 16,
                swap ? "Stored if the memory equals the compare operand." : "Added to the memory.");
  group.add_hex("compare", "Compare", atomic.compare, 16,
                swap ? "The swap happens only if the memory holds this." : "Not used by FETCH ADD.");
}

std::string_view syndrome_meaning(Aeth aeth) {
  if (aeth.is_rnr_nak())
    return "Receiver not ready: no receive buffer was posted; the sender tries again after the delay.";
  if (aeth.is_ack())
    return "Fine so far; the lower bits tell how many more messages have a buffer (31: not told).";
  switch (static_cast<NakCode>(aeth.code())) {
    case NakCode::kSequenceError:
      return "A packet is missing: the sender starts again with the PSN of this NAK.";
    case NakCode::kInvalidRequest:
      return "The request makes no sense here (too long, misaligned, not enabled): the connection ends.";
    case NakCode::kRemoteAccessError:
      return "Wrong key, range or right for that memory: the connection ends.";
    case NakCode::kRemoteOperationalError: return "The responder itself failed: the connection ends.";
  }
  return "Reserved.";
}

void add_aeth(Field& parent, const Aeth& aeth) {
  Field& group = parent.add_group("aeth", "AETH", octets_text(kAethOctets),
                                  "The acknowledgement: yes, not yet, or no with a reason.");
  group.add("syndrome", "Syndrome", std::uint32_t{aeth.syndrome}, formatted("0x{:02x}", aeth.syndrome),
            "The upper three bits are the kind, the lower five credits, timer or reason.");
  group.add_text("syndrome_text", "Says", syndrome_text(aeth), syndrome_meaning(aeth));
  group.add_number(
      "msn", "MSN", aeth.msn,
      "The message sequence number: how many messages the responder has completed, modulo 2^24.");
}

void add_atomic_ack_eth(Field& parent, const AtomicAckEth& ack) {
  parent
      .add_group("atomic_ack_eth", "AtomicAckETH", octets_text(kAtomicAckEthOctets),
                 "The result of an atomic operation.")
      .add_hex("original", "Original data", ack.original, 16, "What the memory held before.");
}

}  // namespace

std::string duration_text(std::uint64_t ns) {
  if (ns < 1'000) return formatted("{} ns", ns);
  if (ns < 1'000'000) return formatted("{:.4g} us", static_cast<double>(ns) / 1e3);
  if (ns < 1'000'000'000) return formatted("{:.5g} ms", static_cast<double>(ns) / 1e6);
  return formatted("{:.5g} s", static_cast<double>(ns) / 1e9);
}

std::string timeout_text(std::uint8_t code) { return duration_text(std::uint64_t{4096} << (code & 0x1f)); }

std::string syndrome_text(Aeth aeth) {
  if (aeth.is_ack()) {
    return aeth.code() == kSyndromeAckNoCredits ? "ACK" : formatted("ACK, credit code {}", aeth.code());
  }
  if (aeth.is_rnr_nak()) return "RNR NAK, wait " + duration_text(rnr_delay_ns(aeth.code()));
  if (!aeth.is_nak()) return formatted("reserved syndrome 0x{:02x}", aeth.syndrome);
  switch (static_cast<NakCode>(aeth.code())) {
    case NakCode::kSequenceError: return "NAK, PSN sequence error";
    case NakCode::kInvalidRequest: return "NAK, invalid request";
    case NakCode::kRemoteAccessError: return "NAK, remote access error";
    case NakCode::kRemoteOperationalError: return "NAK, remote operational error";
  }
  return formatted("NAK, reserved code {}", aeth.code());
}

std::string flush_text(Feth feth) {
  std::string text = feth.selectivity() == 0   ? "range"
                     : feth.selectivity() == 1 ? "whole region"
                                               : "reserved selectivity";
  if ((feth.placement() & 1) != 0) text += ", global visibility";
  if ((feth.placement() & 2) != 0) text += ", persistence";
  return text;
}

void add_transport_fields(Field& parent, const TransportHeaders& headers) {
  const OpcodeShape& shape = shape_of(headers.bth.opcode);
  add_bth(parent, headers.bth);
  if (shape.deth) add_deth(parent, headers.deth);
  if (shape.xrceth) add_xrceth(parent, headers.xrceth);
  if (shape.feth) add_feth(parent, headers.feth);
  if (shape.reth) add_reth(parent, headers.reth);
  if (shape.atomic_eth) add_atomic_eth(parent, headers.atomic, headers.bth.opcode.step());
  if (shape.aeth) add_aeth(parent, headers.aeth);
  if (shape.atomic_ack_eth) add_atomic_ack_eth(parent, headers.atomic_ack);
  if (shape.immediate) {
    parent.add_hex("immediate", "Immediate data", big_endian(headers.immediate.raw), 8,
                   "32 bits that the sender's program gave along; they stand in the receiver's completion.");
  }
  if (shape.invalidate) {
    parent.add_hex("invalidate_rkey", "IETH: R_Key to invalidate", headers.invalidate.value, 8,
                   "The receiver takes this key back before it completes the receive.");
  }
}

}  // namespace rrdma::wire
