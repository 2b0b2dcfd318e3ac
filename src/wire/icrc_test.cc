// CRC-32 and the ICRC: known values, gathered sums compared with a plain sum, the masks, and the
// identification that the solver finds.
#include "wire/icrc.h"

#include <gtest/gtest.h>
#include <isa-l/crc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/prng.h"
#include "wire/crc32.h"
#include "wire/crc32_polynomial.h"
#include "wire/identification_solver.h"
#include "wire/ipv4.h"

namespace rrdma::wire::icrc_test {

std::vector<std::uint8_t> random_octets(Prng& prng, std::size_t count) {
  std::vector<std::uint8_t> octets(count);
  for (auto& octet : octets) octet = static_cast<std::uint8_t>(prng.next());
  return octets;
}

// All short lengths, and some that are summed in several runs of several parts.
std::vector<std::size_t> lengths_to_try(Prng& prng) {
  std::vector<std::size_t> lengths(2500);
  std::iota(lengths.begin(), lengths.end(), std::size_t{0});
  for (const std::size_t around : {4096u, 12288u, 24576u}) {
    for (std::size_t length = around - 20; length < around + 20; ++length) lengths.push_back(length);
  }
  for (int i = 0; i < 50; ++i) lengths.push_back(prng.below(70'000));
  return lengths;
}

// The definition, bit by bit: the reference for ISA-L and the CPU's instructions.
std::uint32_t crc32_by_bits(Octets octets) {
  std::uint32_t crc = 0xffffffff;
  for (const std::uint8_t octet : octets) {
    crc ^= octet;
    for (int bit = 0; bit < 8; ++bit) crc = crc32_polynomial::times_x(crc);
  }
  return ~crc;
}

TEST(Crc32, IsTheCrcOfEthernet) {
  const std::uint8_t digits[] = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  EXPECT_EQ(crc32(digits), 0xcbf43926U);
  EXPECT_EQ(crc32({}), 0U);
  Prng prng(1);
  for (const std::size_t size : lengths_to_try(prng)) {
    const auto octets = random_octets(prng, size);
    const std::uint32_t by_bits = crc32_by_bits(octets);
    EXPECT_EQ(crc32(octets), by_bits) << size;
    EXPECT_EQ(crc32_gzip_refl(0, octets.data(), octets.size()), by_bits) << "ISA-L, " << size;
  }
}

TEST(Crc32, GoesOnFromPieceToPiece) {
  Prng prng(2);
  const auto octets = random_octets(prng, 20'000);
  for (int round = 0; round < 50; ++round) {
    Crc32 sum;
    Octets rest = octets;
    while (!rest.empty()) {
      const std::size_t take = prng.between(0, std::min<std::size_t>(rest.size(), 3000));
      sum.update(rest.first(take));
      rest = rest.subspan(take);
    }
    EXPECT_EQ(sum.value(), crc32_by_bits(octets));
  }
}

TEST(Crc32, CopiesOnTheWay) {
  Prng prng(3);
  for (const std::size_t size : lengths_to_try(prng)) {
    const auto octets = random_octets(prng, size);
    std::vector<std::uint8_t> copy(size + 8, 0xee);
    EXPECT_EQ(crc32_copy(0x1234, octets, copy.data()), crc32_extend(0x1234, octets)) << size;
    EXPECT_TRUE(std::equal(octets.begin(), octets.end(), copy.begin())) << size;
    EXPECT_TRUE(std::all_of(copy.begin() + static_cast<std::ptrdiff_t>(size), copy.end(), [](auto octet) {
      return octet == 0xee;
    })) << size;
  }
}

// A region may end where the mapping ends.
TEST(Crc32, TouchesNothingBehindTheEnd) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto map = [&](int protection) {
    void* memory = ::mmap(nullptr, 3 * page, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return static_cast<std::uint8_t*>(memory);
  };
  std::uint8_t* const from = map(PROT_READ | PROT_WRITE);
  std::uint8_t* const to = map(PROT_READ | PROT_WRITE);
  ASSERT_EQ(::mprotect(from + 2 * page, page, PROT_NONE), 0);
  ASSERT_EQ(::mprotect(to + 2 * page, page, PROT_NONE), 0);
  Prng prng(5);
  for (std::size_t i = 0; i < 2 * page; ++i) from[i] = static_cast<std::uint8_t>(prng.next());
  for (std::size_t size = 0; size <= 2 * page; size += size < 1000 ? 1 : 61) {
    const Octets octets(from + 2 * page - size, size);
    EXPECT_EQ(crc32_copy(0, octets, to + 2 * page - size), crc32(octets)) << size;
  }
  ::munmap(from, 3 * page);
  ::munmap(to, 3 * page);
}

TEST(Crc32Polynomial, RollingBackUndoesZeroOctets) {
  Prng prng(3);
  for (int round = 0; round < 500; ++round) {
    const auto start = static_cast<std::uint32_t>(prng.next());
    const auto count = static_cast<std::uint16_t>(prng.below(65536));
    std::uint32_t crc = start;
    for (int bit = 0; bit < count * 8; ++bit) crc = crc32_polynomial::times_x(crc);
    EXPECT_EQ(crc32_polynomial::multiply(crc, crc32_polynomial::roll_back_factor(count)), start);
  }
}

TEST(Icrc, StartsOverEightOctetsOfOnes) {
  const std::array<std::uint8_t, 8> ones = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  EXPECT_EQ(crc32(ones), kIcrcStart);
}

TEST(Icrc, IsStoredLeastSignificantOctetFirst) {
  std::uint8_t octets[4];
  store_icrc(octets, 0x11223344);
  EXPECT_EQ(octets[0], 0x44);
  EXPECT_EQ(octets[3], 0x11);
  EXPECT_EQ(load_icrc(octets), 0x11223344U);
}

struct Flow {
  IcrcSeed seed;
  std::vector<std::uint8_t> network;  // IP and UDP or GRH as on the wire, all mutable fields random
};

// Builds the network headers byte by byte, independently of the code under test.
Flow random_flow(Prng& prng, Network network, std::size_t length, std::uint16_t identification) {
  const auto source = random_octets(prng, 16);
  const auto destination = random_octets(prng, 16);
  const auto udp = random_octets(prng, 8);
  const auto any = [&prng] { return static_cast<std::uint8_t>(prng.next()); };
  const std::uint16_t source_port = load_be16(udp.data());
  const std::uint16_t destination_port = load_be16(udp.data() + 2);
  const auto udp_length = static_cast<std::uint16_t>(length + 8);
  std::vector<std::uint8_t> octets;
  if (network == Network::kIpv4) {
    octets = {0x45, any(), 0, 0, 0, 0, 0x40, 0, any(), 17, any(), any()};
    store_be16(octets.data() + 2, static_cast<std::uint16_t>(udp_length + 20));
    store_be16(octets.data() + 4, identification);
    octets.insert(octets.end(), source.begin(), source.begin() + 4);
    octets.insert(octets.end(), destination.begin(), destination.begin() + 4);
  } else {
    const bool v1 = network == Network::kRoceV1;
    octets = {static_cast<std::uint8_t>(0x60 | (any() & 0x0f)), any(), any(), any(), 0, 0,
              static_cast<std::uint8_t>(v1 ? 0x1b : 17),        any()};
    store_be16(octets.data() + 4, static_cast<std::uint16_t>(v1 ? length : udp_length));
    octets.insert(octets.end(), source.begin(), source.end());
    octets.insert(octets.end(), destination.begin(), destination.end());
  }
  if (network != Network::kRoceV1) {
    octets.insert(octets.end(), udp.begin(), udp.end());
    store_be16(octets.data() + octets.size() - 4, udp_length);
  }
  Ipv4Address source4;
  Ipv4Address destination4;
  Ipv6Address source6;
  Ipv6Address destination6;
  std::copy_n(source.begin(), 4, source4.octets.begin());
  std::copy_n(destination.begin(), 4, destination4.octets.begin());
  std::copy_n(source.begin(), 16, source6.octets.begin());
  std::copy_n(destination.begin(), 16, destination6.octets.begin());
  switch (network) {
    case Network::kIpv4:
      return {IcrcSeed::ipv4(source4, destination4, source_port, destination_port), octets};
    case Network::kIpv6:
      return {IcrcSeed::ipv6(source6, destination6, source_port, destination_port), octets};
    case Network::kRoceV1: break;
  }
  return {IcrcSeed::roce_v1(gid_of(source6), gid_of(destination6)), octets};
}

constexpr Network kNetworks[] = {Network::kIpv4, Network::kIpv6, Network::kRoceV1};

// The seed, gathered or not, agrees with the exact sum over the whole packet.
TEST(Icrc, OfAFlowIsThatOfTheWholePacket) {
  Prng prng(4);
  for (int round = 0; round < 3000; ++round) {
    const Network network = kNetworks[round % 3];
    const auto identification = static_cast<std::uint16_t>(prng.next());
    const auto headers = random_octets(prng, prng.between(kBthOctets, kHeaderOctetsMax));
    const auto payload = random_octets(prng, prng.below(2) == 0 ? prng.below(64) : prng.below(4097));
    const auto pad = static_cast<std::uint8_t>(-payload.size() & 3);
    auto transport = headers;
    transport.insert(transport.end(), payload.begin(), payload.end());
    transport.insert(transport.end(), pad, 0);
    const Flow flow = random_flow(prng, network, transport.size() + kIcrcOctets, identification);
    auto packet = flow.network;
    packet.insert(packet.end(), transport.begin(), transport.end());
    const std::uint32_t exact = icrc_of_packet(network, packet);

    std::vector<Octets> pieces;
    Octets rest = payload;
    while (!rest.empty()) {
      const std::size_t take = prng.between(0, rest.size());
      pieces.push_back(rest.first(take));
      rest = rest.subspan(take);
    }
    EXPECT_EQ(flow.seed.icrc(headers, pieces, pad, identification), exact);
    EXPECT_EQ(flow.seed.icrc(transport, identification), exact);
    std::vector<std::uint8_t> copy(payload.size());
    EXPECT_EQ(flow.seed.icrc_copying(headers, pieces, pad, copy.data(), identification), exact);
    EXPECT_EQ(copy, payload);

    transport.resize(transport.size() + kIcrcOctets);
    store_icrc(transport.data() + transport.size() - kIcrcOctets, exact);
    EXPECT_TRUE(icrc_matches(flow.seed, transport, identification));
    transport[prng.below(transport.size())] ^= static_cast<std::uint8_t>(1 << prng.below(8));
    const bool masked = transport[4] != headers[4];
    EXPECT_EQ(icrc_matches(flow.seed, transport, identification), masked);
  }
}

// The bytes of the network headers that the sum ignores.
TEST(Icrc, IgnoresExactlyTheFieldsThatMayChange) {
  Prng prng(5);
  for (const Network network : kNetworks) {
    const auto transport = random_octets(prng, 40);
    const Flow flow = random_flow(prng, network, transport.size() + kIcrcOctets, 0x1234);
    auto packet = flow.network;
    packet.insert(packet.end(), transport.begin(), transport.end());
    const std::uint32_t exact = icrc_of_packet(network, packet);
    const std::size_t bth = flow.network.size();
    std::vector<std::size_t> ignored_octets = {bth + 4};
    if (network == Network::kIpv4) ignored_octets.insert(ignored_octets.end(), {1, 8, 10, 11});
    if (network != Network::kIpv4) ignored_octets.insert(ignored_octets.end(), {1, 2, 3, 7});
    if (network != Network::kRoceV1) ignored_octets.insert(ignored_octets.end(), {bth - 2, bth - 1});
    // Start at byte 1: byte 0 holds the length of an IPv4 header.
    for (std::size_t at = 1; at < packet.size(); ++at) {
      auto changed = packet;
      changed[at] ^= 0x10;
      const bool ignored =
          std::find(ignored_octets.begin(), ignored_octets.end(), at) != ignored_octets.end();
      EXPECT_EQ(icrc_of_packet(network, changed) == exact, ignored) << "octet " << at;
    }
    if (network != Network::kIpv4) {
      auto changed = packet;
      changed[0] ^= 0x05;
      EXPECT_EQ(icrc_of_packet(network, changed), exact) << "upper half of the traffic class";
      changed[0] ^= 0x10;
      EXPECT_NE(icrc_of_packet(network, changed), exact) << "version";
    }
  }
}

// RoCE v1 by hand: eight bytes for the LRH, then the masked GRH and BTH, as one plain CRC.
TEST(Icrc, OfRoceV1IsThePlainSumOverMaskedOctets) {
  Prng prng(6);
  const auto transport = random_octets(prng, 20);
  const Flow flow = random_flow(prng, Network::kRoceV1, transport.size() + kIcrcOctets, 0);
  std::vector<std::uint8_t> plain(8, 0xff);
  plain.insert(plain.end(), flow.network.begin(), flow.network.end());
  plain.insert(plain.end(), transport.begin(), transport.end());
  plain[8] = 0x6f;
  plain[9] = plain[10] = plain[11] = 0xff;
  plain[8 + 7] = 0xff;
  plain[8 + 40 + 4] = 0xff;
  EXPECT_EQ(flow.seed.icrc(transport), crc32_by_bits(plain));
}

TEST(Icrc, RefusesWhatHasNoRoomForIt) {
  const IcrcSeed seed = IcrcSeed::ipv4({}, {}, 1);
  const std::vector<std::uint8_t> octets(15);
  EXPECT_FALSE(icrc_matches(seed, octets));
  EXPECT_EQ(IdentificationSolver().check(seed, octets).verdict, IcrcVerdict::kWrong);
}

struct Received {
  IcrcSeed seed;
  std::vector<std::uint8_t> transport;  // with the ICRC
};

Received received_with(Prng& prng, std::size_t size, std::uint16_t identification) {
  auto transport = random_octets(prng, size);
  const Flow flow = random_flow(prng, Network::kIpv4, size + kIcrcOctets, identification);
  const std::uint32_t icrc = flow.seed.icrc(transport, identification);
  transport.resize(size + kIcrcOctets);
  store_icrc(transport.data() + size, icrc);
  return {flow.seed, transport};
}

TEST(IdentificationSolver, FindsEveryIdentification) {
  Prng prng(7);
  IdentificationSolver solver;
  for (std::uint32_t identification = 0; identification < 65536; identification += 1) {
    const std::size_t size = kBthOctets + 4 * prng.below(20);
    const Received packet = received_with(prng, size, static_cast<std::uint16_t>(identification));
    const SolvedIcrc solved = solver.check(packet.seed, packet.transport);
    ASSERT_EQ(solved.identification, identification);
    ASSERT_EQ(solved.verdict, identification == 0 ? IcrcVerdict::kRight : IcrcVerdict::kSolved);
  }
}

TEST(IdentificationSolver, WorksForEveryLengthAndAnyOrderOfLengths) {
  Prng prng(8);
  IdentificationSolver solver;
  for (int round = 0; round < 4000; ++round) {
    // RoCE lengths are multiples of four; the solver does not rely on that.
    const std::size_t size = round < 3000 ? kBthOctets + prng.below(9000) : 65535 - 28 - 4 - prng.below(100);
    const auto identification = static_cast<std::uint16_t>(prng.next());
    const Received packet = received_with(prng, size, identification);
    EXPECT_EQ(solver.check(packet.seed, packet.transport).identification, identification) << size;
  }
}

TEST(IdentificationSolver, AnExpectedIdentificationIsAFullCheck) {
  Prng prng(9);
  IdentificationSolver solver;
  const Received packet = received_with(prng, 100, 0x1234);
  EXPECT_EQ(solver.check(packet.seed, packet.transport, 0x1234), (SolvedIcrc{IcrcVerdict::kRight, 0x1234}));
  EXPECT_EQ(solver.check(packet.seed, packet.transport, 0x1233), (SolvedIcrc{IcrcVerdict::kSolved, 0x1234}));
}

TEST(IdentificationSolver, RefusesFlippedBits) {
  Prng prng(10);
  IdentificationSolver solver;
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    Received packet =
        received_with(prng, kBthOctets + 4 * prng.below(300), static_cast<std::uint16_t>(prng.next()));
    std::size_t at = prng.below(packet.transport.size());
    if (at == 4) at = 5;  // not covered
    packet.transport[at] ^= static_cast<std::uint8_t>(1 << prng.below(8));
    if (solver.check(packet.seed, packet.transport).verdict != IcrcVerdict::kWrong) ++accepted;
  }
  EXPECT_LE(accepted, 5) << "of 20000, where 16 bits of check let 0.3 pass";
}

// The solver assumes DF set, so it does not accept a packet with DF clear.
TEST(IdentificationSolver, TakesDontFragmentAsSet) {
  Prng prng(11);
  const auto transport = random_octets(prng, 100);
  Flow flow = random_flow(prng, Network::kIpv4, transport.size() + kIcrcOctets, 77);
  flow.network[6] = 0;
  auto packet = flow.network;
  packet.insert(packet.end(), transport.begin(), transport.end());
  const std::uint32_t icrc = icrc_of_packet(Network::kIpv4, packet);
  auto received = transport;
  received.resize(received.size() + kIcrcOctets);
  store_icrc(received.data() + transport.size(), icrc);
  IdentificationSolver solver;
  EXPECT_EQ(solver.check(flow.seed, received).verdict, IcrcVerdict::kWrong);
}

}  // namespace rrdma::wire::icrc_test
