// Writes one packet of every opcode over IPv4, IPv6 and RoCE v1 into a pcapng file. Prints the intended
// values to standard output, one JSON object for each packet, made from the values before they were emitted.
// every_opcode_test.py compares both with the output of tshark.
//
//   write_every_opcode FILE
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/prng.h"
#include "wire/pcapng_writer.h"
#include "wire/roce_packet.h"
#include "wire/source_port.h"
#include "wire/transport_packet.h"

namespace rrdma::wire {
namespace {

constexpr std::uint64_t kSeed = 0x726f6365;
constexpr std::uint64_t kFirstTime = 1'700'000'000'000'000'001;  // odd nanoseconds, to detect rounding

std::uint32_t bits(Prng& prng, unsigned width) {
  return static_cast<std::uint32_t>(prng.below(1ull << width));
}

TransportHeaders random_headers(Prng& prng, Opcode opcode) {
  TransportHeaders headers;
  headers.bth.opcode = opcode;
  headers.bth.solicited = bits(prng, 1) != 0;
  headers.bth.migration = bits(prng, 1) != 0;
  headers.bth.pkey = static_cast<std::uint16_t>(bits(prng, 16));
  headers.bth.fecn = bits(prng, 1) != 0;
  headers.bth.becn = bits(prng, 1) != 0;
  headers.bth.destination = Qpn(bits(prng, 24) | 0x100);  // not QP 1: the payload is no management datagram
  headers.bth.ack_request = bits(prng, 1) != 0;
  headers.bth.psn = Psn(bits(prng, 24));
  headers.deth = {.qkey = {bits(prng, 32)}, .source = Qpn(bits(prng, 24))};
  headers.xrceth = {.srq = bits(prng, 24)};
  headers.feth = {.raw = bits(prng, 6)};
  headers.reth = {.address = prng.next(), .rkey = {bits(prng, 32)}, .length = bits(prng, 31)};
  headers.atomic = {.address = prng.next() & ~7ull,
                    .rkey = {bits(prng, 32)},
                    .swap_or_add = prng.next(),
                    .compare = prng.next()};
  constexpr std::array<std::uint8_t, 6> kSyndromes = {0x1f, 0x05, 0x32, 0x60, 0x61, 0x62};
  headers.aeth = {.syndrome = kSyndromes[prng.below(kSyndromes.size())], .msn = bits(prng, 24)};
  headers.atomic_ack = {.original = prng.next()};
  headers.immediate = {.raw = bits(prng, 32)};
  headers.invalidate = {bits(prng, 32)};
  return headers;
}

std::vector<std::uint8_t> random_payload(Prng& prng, PayloadRule rule) {
  std::size_t length = 0;
  switch (rule) {
    case PayloadRule::kNone: break;
    case PayloadRule::kFull: length = 256; break;
    case PayloadRule::kOneToFull: length = prng.between(1, 256); break;
    case PayloadRule::kUpToFull: length = prng.below(257); break;
    case PayloadRule::kEight: length = 8; break;
    case PayloadRule::kSixteen: return std::vector<std::uint8_t>(16);
  }
  std::vector<std::uint8_t> payload(length);
  for (auto& octet : payload) octet = static_cast<std::uint8_t>(prng.next());
  return payload;
}

RoceFrame frame_around(Prng& prng, Network network) {
  RoceFrame frame;
  frame.ethernet.emplace();
  frame.ethernet->destination.octets = {0x02, 0, 0, 0, 0, 2};
  frame.ethernet->source.octets = {0x02, 0, 0, 0, 0, 1};
  frame.udp.source = static_cast<std::uint16_t>(kSourcePortMin + bits(prng, 14));
  switch (network) {
    case Network::kIpv4: {
      Ipv4Header ip;
      ip.source.octets = {10, 0, 0, 1};
      ip.destination.octets = {10, 0, 0, 2};
      ip.identification = static_cast<std::uint16_t>(bits(prng, 16));
      frame.network = ip;
      frame.ethernet->ether_type = kEtherTypeIpv4;
      break;
    }
    case Network::kIpv6: {
      Ipv6Header ip;
      ip.source.octets = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
      ip.destination.octets = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
      ip.flow_label = bits(prng, 20);
      frame.network = ip;
      frame.ethernet->ether_type = kEtherTypeIpv6;
      break;
    }
    case Network::kRoceV1: {
      Grh grh;
      grh.source.octets = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
      grh.destination.octets = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
      frame.network = grh;
      frame.udp = UdpHeader{.source = 0, .destination = 0};
      frame.ethernet->ether_type = kEtherTypeRoceV1;
      break;
    }
  }
  return frame;
}

nlohmann::ordered_json meant(const TransportHeaders& headers, Octets payload) {
  const OpcodeShape& shape = shape_of(headers.bth.opcode);
  const Bth& bth = headers.bth;
  nlohmann::ordered_json fields = {{"opcode", bth.opcode.value},    {"solicited", bth.solicited},
                                   {"migration", bth.migration},    {"pad", bth.pad},
                                   {"version", bth.version},        {"pkey", bth.pkey},
                                   {"psn", bth.psn.value},          {"destination_qp", bth.destination.value},
                                   {"ack_request", bth.ack_request}};
  if (shape.deth)
    fields.update({{"qkey", headers.deth.qkey.value}, {"source_qp", headers.deth.source.value}});
  if (shape.xrceth) fields["srq"] = headers.xrceth.srq;
  if (shape.feth) {
    fields.update({{"placement", headers.feth.raw % 16}, {"selectivity", headers.feth.raw / 16}});
  }
  if (shape.reth) {
    fields.update({{"address", headers.reth.address},
                   {"rkey", headers.reth.rkey.value},
                   {"length", headers.reth.length}});
  }
  if (shape.atomic_eth) {
    fields.update({{"address", headers.atomic.address},
                   {"rkey", headers.atomic.rkey.value},
                   {"swap_or_add", headers.atomic.swap_or_add},
                   {"compare", headers.atomic.compare}});
  }
  if (shape.aeth) fields.update({{"syndrome", headers.aeth.syndrome}, {"msn", headers.aeth.msn}});
  if (shape.atomic_ack_eth) fields["original"] = headers.atomic_ack.original;
  // Immediate data has the same byte order in memory and on the wire.
  if (shape.immediate) fields["immediate"] = big_endian(headers.immediate.raw);
  if (shape.invalidate) fields["invalidate_rkey"] = headers.invalidate.value;
  std::string hex;
  for (const auto octet : payload) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", octet);
    hex += digits;
  }
  return {{"fields", fields}, {"payload", hex}};
}

void write_packet(Prng& prng, PcapngWriter& writer, Network network, Opcode opcode, std::uint64_t time_ns) {
  TransportHeaders headers = random_headers(prng, opcode);
  const auto payload = random_payload(prng, shape_of(opcode).payload);
  headers.bth.pad = pad_for(payload.size());
  std::vector<std::uint8_t> transport(kHeaderOctetsMax);
  transport.resize(emit_transport_headers(headers, transport.data()));
  transport.insert(transport.end(), payload.begin(), payload.end());
  transport.resize(transport.size() + headers.bth.pad);

  RoceFrame frame = frame_around(prng, network);
  frame.transport = transport;
  std::vector<std::uint8_t> octets(frame_octets(frame));
  emit_frame(frame, octets);
  const Octets piece = octets;
  writer.write({.interface = 0, .time_ns = time_ns, .pieces = {&piece, 1}, .comment = opcode_name(opcode)});

  nlohmann::ordered_json line = meant(headers, payload);
  line["network"] = network == Network::kIpv4 ? "ipv4" : network == Network::kIpv6 ? "ipv6" : "roce_v1";
  line["name"] = opcode_name(opcode);
  line["time_ns"] = time_ns;
  std::cout << line.dump() << '\n';
}

int write_all(const char* path) {
  std::ofstream file(path, std::ios::binary);
  PcapngWriter writer(
      [&file](Octets block) {
        file.write(reinterpret_cast<const char*>(block.data()), static_cast<std::streamsize>(block.size()));
      },
      "write_every_opcode");
  writer.add_interface(LinkType::kEthernet, "test0");
  Prng prng(kSeed);
  std::uint64_t time_ns = kFirstTime;
  for (const Network network : {Network::kIpv4, Network::kIpv6, Network::kRoceV1}) {
    for (unsigned value = 0; value < 256; ++value) {
      const Opcode opcode(static_cast<std::uint8_t>(value));
      if (shape_of(opcode).known()) write_packet(prng, writer, network, opcode, time_ns += 1001);
    }
  }
  file.flush();
  return file.good() ? 0 : 1;
}

}  // namespace
}  // namespace rrdma::wire

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_every_opcode FILE\n";
    return 2;
  }
  return rrdma::wire::write_all(argv[1]);
}
