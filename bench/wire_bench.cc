// The cost of wire/: parsing and emitting each header, whole transport packets and frames, and the ICRC
// compared with the raw speed of ISA-L. wire_bars.cc checks the bars.
#include <benchmark/benchmark.h>
#include <isa-l/crc.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "wire/crc32.h"
#include "wire/ethernet.h"
#include "wire/grh.h"
#include "wire/icrc.h"
#include "wire/identification_solver.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/roce_packet.h"
#include "wire/transport_packet.h"
#include "wire/udp.h"

namespace rrdma::wire {
namespace {

using benchmark::DoNotOptimize;

std::vector<std::uint8_t> random_octets(std::size_t count) {
  Prng prng(1);
  std::vector<std::uint8_t> octets(count);
  for (auto& octet : octets) octet = static_cast<std::uint8_t>(prng.next());
  return octets;
}

// Runs `step` on `octets`, whose contents the compiler must treat as unknown each time.
template <typename Step>
void each_time(benchmark::State& state, std::vector<std::uint8_t>& octets, Step step) {
  for (auto _ : state) {
    DoNotOptimize(octets.data());
    benchmark::ClobberMemory();
    auto result = step(octets);
    DoNotOptimize(result);
  }
}

// One parse and one emit benchmark for a header of wire/headers.h.
#define RRDMA_HEADER_BENCH(name, octets)                                                  \
  void parse_##name##_header(benchmark::State& state) {                                   \
    auto buffer = random_octets(octets);                                                  \
    each_time(state, buffer, [](const auto& from) { return parse_##name(from.data()); }); \
  }                                                                                       \
  BENCHMARK(parse_##name##_header);                                                       \
  void emit_##name##_header(benchmark::State& state) {                                    \
    auto buffer = random_octets(octets);                                                  \
    auto header = parse_##name(buffer.data());                                            \
    each_time(state, buffer, [&header](auto& to) {                                        \
      DoNotOptimize(header);                                                              \
      emit_##name(header, to.data());                                                     \
      return to[0];                                                                       \
    });                                                                                   \
  }                                                                                       \
  BENCHMARK(emit_##name##_header)

RRDMA_HEADER_BENCH(bth, kBthOctets);
RRDMA_HEADER_BENCH(reth, kRethOctets);
RRDMA_HEADER_BENCH(aeth, kAethOctets);
RRDMA_HEADER_BENCH(atomic_eth, kAtomicEthOctets);
RRDMA_HEADER_BENCH(atomic_ack_eth, kAtomicAckEthOctets);
RRDMA_HEADER_BENCH(deth, kDethOctets);
RRDMA_HEADER_BENCH(immediate, kImmediateOctets);
RRDMA_HEADER_BENCH(ieth, kIethOctets);
RRDMA_HEADER_BENCH(xrceth, kXrcEthOctets);
RRDMA_HEADER_BENCH(feth, kFethOctets);

// Network headers: emits a default `Value` once, then parses or emits it repeatedly.
template <typename Value, typename Parse, typename Emit>
void parse_network(benchmark::State& state, Value value, Parse parse, Emit emit) {
  std::vector<std::uint8_t> octets(128);
  emit(value, octets);
  each_time(state, octets, [&](const auto& from) { return parse(Octets(from)); });
}
template <typename Value, typename Emit>
void emit_network(benchmark::State& state, Value value, Emit emit) {
  std::vector<std::uint8_t> octets(128);
  each_time(state, octets, [&](auto& to) {
    DoNotOptimize(value);
    return emit(value, MutableOctets(to));
  });
}

const EthernetHeader kEthernet{.ether_type = kEtherTypeIpv4};
const Ipv4Header kIpv4{.total_length = 128};
const Ipv6Header kIpv6{.payload_length = 88};
const Grh kGrh{.payload_length = 88};
const UdpHeader kUdp{.length = 128};

void parse_ethernet_header(benchmark::State& state) {
  parse_network(state, kEthernet, parse_ethernet, emit_ethernet);
}
void parse_ipv4_header(benchmark::State& state) { parse_network(state, kIpv4, parse_ipv4, emit_ipv4); }
void parse_ipv6_header(benchmark::State& state) { parse_network(state, kIpv6, parse_ipv6, emit_ipv6); }
void parse_grh_header(benchmark::State& state) { parse_network(state, kGrh, parse_grh, emit_grh); }
void parse_udp_header(benchmark::State& state) { parse_network(state, kUdp, parse_udp, emit_udp); }
void emit_ethernet_header(benchmark::State& state) { emit_network(state, kEthernet, emit_ethernet); }
void emit_ipv4_header(benchmark::State& state) { emit_network(state, kIpv4, emit_ipv4); }
void emit_ipv6_header(benchmark::State& state) { emit_network(state, kIpv6, emit_ipv6); }
void emit_grh_header(benchmark::State& state) { emit_network(state, kGrh, emit_grh); }
void emit_udp_header(benchmark::State& state) { emit_network(state, kUdp, emit_udp); }
BENCHMARK(parse_ethernet_header);
BENCHMARK(emit_ethernet_header);
BENCHMARK(parse_ipv4_header);
BENCHMARK(emit_ipv4_header);
BENCHMARK(parse_ipv6_header);
BENCHMARK(emit_ipv6_header);
BENCHMARK(parse_grh_header);
BENCHMARK(emit_grh_header);
BENCHMARK(parse_udp_header);
BENCHMARK(emit_udp_header);

// A whole transport packet: RC WRITE ONLY (BTH and RETH) or RC ACKNOWLEDGE (BTH and AETH).
void parse_transport_packet(benchmark::State& state, Step operation, std::size_t payload) {
  TransportHeaders headers;
  headers.bth.opcode = Opcode(Transport::kReliableConnection, operation);
  std::vector<std::uint8_t> octets(kHeaderOctetsMax + payload);
  octets.resize(emit_transport_headers(headers, octets.data()) + payload);
  TransportPacket packet;
  each_time(state, octets, [&packet](const auto& from) {
    const TransportError error = parse_transport(from, packet);
    DoNotOptimize(packet);
    return error;
  });
}
void emit_transport_packet(benchmark::State& state, Step operation) {
  TransportHeaders headers;
  headers.bth.opcode = Opcode(Transport::kReliableConnection, operation);
  std::vector<std::uint8_t> octets(kHeaderOctetsMax);
  each_time(state, octets, [&headers](auto& to) {
    DoNotOptimize(headers);
    return emit_transport_headers(headers, to.data());
  });
}
BENCHMARK_CAPTURE(parse_transport_packet, write_only, Step::kWriteOnly, 64);
BENCHMARK_CAPTURE(parse_transport_packet, acknowledge, Step::kAcknowledge, 0);
BENCHMARK_CAPTURE(emit_transport_packet, write_only, Step::kWriteOnly);
BENCHMARK_CAPTURE(emit_transport_packet, acknowledge, Step::kAcknowledge);

void raw_isal(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  // Add pages after the end: ISA-L on arm64 prefetches there and is many times slower if there are none.
  auto octets = random_octets(size + 4 * 4096);
  each_time(state, octets, [size](const auto& from) { return crc32_gzip_refl(0, from.data(), size); });
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(raw_isal)->Arg(12)->Arg(64)->Arg(1024)->Arg(4096);

void crc32_of(benchmark::State& state) {
  auto octets = random_octets(static_cast<std::size_t>(state.range(0)));
  each_time(state, octets, [](const auto& from) { return crc32(from); });
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(crc32_of)->Arg(12)->Arg(64)->Arg(1024)->Arg(4096);

IcrcSeed seed_of(Network network) {
  switch (network) {
    case Network::kIpv4: return IcrcSeed::ipv4({{10, 0, 0, 1}}, {{10, 0, 0, 2}}, 0xc123);
    case Network::kIpv6: return IcrcSeed::ipv6({{0xfd, 1}}, {{0xfd, 2}}, 0xc123);
    case Network::kRoceV1: break;
  }
  return IcrcSeed::roce_v1({{0xfd, 1}}, {{0xfd, 2}});
}

// Sending: headers from the engine, payload in the program's memory.
void icrc_send(benchmark::State& state, Network network) {
  const IcrcSeed seed = seed_of(network);
  const auto headers = random_octets(kBthOctets + kRethOctets);
  auto octets = random_octets(static_cast<std::size_t>(state.range(0)));
  each_time(state, octets, [&](const auto& payload) {
    const Octets pieces[] = {payload};
    return seed.icrc(headers, pieces, 0);
  });
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK_CAPTURE(icrc_send, ipv4, Network::kIpv4)->Arg(0)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK_CAPTURE(icrc_send, ipv6, Network::kIpv6)->Arg(0)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK_CAPTURE(icrc_send, roce_v1, Network::kRoceV1)->Arg(4096);

// Receiving: one span from the BTH to the ICRC.
void icrc_check(benchmark::State& state, Network network) {
  const IcrcSeed seed = seed_of(network);
  auto octets = random_octets(static_cast<std::size_t>(state.range(0)) + kBthOctets + kIcrcOctets);
  each_time(state, octets, [&](const auto& transport) { return icrc_matches(seed, transport); });
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK_CAPTURE(icrc_check, ipv6, Network::kIpv6)->Arg(4)->Arg(64)->Arg(1024)->Arg(4096);

// The same, but the identification must be solved each time.
void icrc_solve(benchmark::State& state) {
  const IcrcSeed seed = seed_of(Network::kIpv4);
  IdentificationSolver solver;
  auto octets = random_octets(static_cast<std::size_t>(state.range(0)) + kBthOctets);
  const std::uint32_t icrc = seed.icrc(octets, 0x1234);
  octets.resize(octets.size() + kIcrcOctets);
  store_icrc(octets.data() + octets.size() - kIcrcOctets, icrc);
  each_time(state, octets, [&](const auto& transport) { return solver.check(seed, transport); });
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(icrc_solve)->Arg(4)->Arg(64)->Arg(1024)->Arg(4096);

void icrc_seed_ipv6(benchmark::State& state) {
  Ipv6Address source{{0xfd, 1}};
  for (auto _ : state) {
    DoNotOptimize(source);
    auto seed = IcrcSeed::ipv6(source, source, 0xc123);
    DoNotOptimize(seed);
  }
}
BENCHMARK(icrc_seed_ipv6);

RoceFrame frame_with(const std::vector<std::uint8_t>& transport) {
  RoceFrame frame;
  frame.ethernet = kEthernet;
  frame.network = kIpv4;
  frame.transport = transport;
  return frame;
}
void parse_whole_frame(benchmark::State& state) {
  const auto transport = random_octets(kBthOctets + static_cast<std::size_t>(state.range(0)));
  const RoceFrame frame = frame_with(transport);
  std::vector<std::uint8_t> octets(frame_octets(frame));
  emit_frame(frame, octets);
  each_time(state, octets, [](const auto& from) { return parse_frame(from); });
}
void emit_whole_frame(benchmark::State& state) {
  const auto transport = random_octets(kBthOctets + static_cast<std::size_t>(state.range(0)));
  const RoceFrame frame = frame_with(transport);
  std::vector<std::uint8_t> octets(frame_octets(frame));
  each_time(state, octets, [&frame](auto& to) { return emit_frame(frame, to); });
}
BENCHMARK(parse_whole_frame)->Arg(64)->Arg(1024);
BENCHMARK(emit_whole_frame)->Arg(64)->Arg(1024);

}  // namespace
}  // namespace rrdma::wire

BENCHMARK_MAIN();
