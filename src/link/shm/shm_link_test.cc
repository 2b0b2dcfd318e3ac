// The link within one process: order and content over many laps, room, routes, drops by reason, arming, and
// corrupted shared memory. For two processes see shm_process_test.cc.
#include "link/shm/shm_link.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "base/guarded_copy.h"
#include "link/shm/shm_test_frames.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"

namespace rrdma::link::shm_link_test {

TEST(ShmLink, FramesOfAllSizesArriveWholeAndInOrderOverManyLaps) {
  JoinedLinks joined;
  const auto path = test_path(joined.a_to_b, kShmTrainOctetsMax);
  CheckingReceiver receiver;
  Prng prng(3);
  std::vector<std::uint8_t> data;
  std::uint32_t sent = 0;
  while (sent < 20'000) {
    for (std::uint64_t batch = prng.below(12); batch > 0 && sent < 20'000; --batch) {
      data.resize(numbered_length(sent, kShmTrainOctetsMax));
      fill_content(data, sent);
      if (!send_numbered(*joined.a, path, sent, data)) break;
      ++sent;
    }
    joined.a->flush({});
    joined.b->poll(receiver, {}, prng.below(20));
  }
  while (joined.b->poll(receiver, {}, 64) != 0) {
  }
  EXPECT_EQ(receiver.packets, sent);
  EXPECT_TRUE(receiver.all_right());
  EXPECT_GT(counter(*joined.a, "shm_no_room"), 0u);
  EXPECT_EQ(counter(*joined.a, "shm_doorbells_rung"), 0u);
}

TEST(ShmLink, AFullRingRefusesAndHasRoomAgainAfterPolling) {
  JoinedLinks joined;
  const auto path = test_path(joined.a_to_b);
  const std::vector<std::uint8_t> data(4096);
  std::uint32_t sent = 0;
  while (send_numbered(*joined.a, path, sent, data)) ++sent;
  EXPECT_GT(sent, 40u);
  EXPECT_LT(sent, kRingOctetsMin / 4096);
  CheckingReceiver receiver;
  EXPECT_EQ(joined.b->poll(receiver, {}, 4), 4u);
  EXPECT_TRUE(send_numbered(*joined.a, path, sent, data));
}

TEST(ShmLink, MemoryIsTouchedOnlyAsFarAsTheReaderLags) {
  JoinedLinks joined(ShmChannel::kRingOctets);
  const auto path = test_path(joined.a_to_b, kShmTrainOctetsMax);
  CheckingReceiver receiver;
  std::vector<std::uint8_t> data(100);
  for (std::uint32_t i = 0; i < 50'000; ++i) {
    fill_content(data, i);
    ASSERT_TRUE(send_numbered(*joined.a, path, i, data));
    ASSERT_EQ(joined.b->poll(receiver, {}, 4), 1u);
  }
  EXPECT_TRUE(receiver.all_right());
  const std::uint8_t* ring = joined.memory + ring_offset(0, ShmChannel::kRingOctets);
  bool touched = false;
  for (std::size_t i = 192 * 1024; i < ShmChannel::kRingOctets; ++i) touched |= ring[i] != 0;
  EXPECT_FALSE(touched);
}

void on_fault(int, siginfo_t*, void* context) {
  if (!recover_from_fault(context)) ::_exit(99);
}

TEST(ShmLink, AFrameFromMemoryThatIsGoneIsDroppedAndCounted) {
  struct sigaction action {};
  struct sigaction old;
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, &old);
  JoinedLinks joined;
  const auto path = test_path(joined.a_to_b);
  void* gone = ::mmap(nullptr, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  objects::Frame* frame = joined.a->reserve(path);
  frame->header_octets = 12;
  frame->add_span(static_cast<const std::uint8_t*>(gone), 100);
  joined.a->commit(*frame);
  CheckingReceiver receiver;
  EXPECT_EQ(joined.b->poll(receiver, {}, 4), 0u);
  EXPECT_EQ(counter(*joined.a, "shm_dropped_source_fault"), 1u);
  // An ACK that would have travelled with it goes alone.
  frame = joined.a->reserve(path);
  frame->header.fill(0);
  frame->header[0] = 0x04;
  frame->header_octets = 12;
  frame->add_span(static_cast<const std::uint8_t*>(gone), 100);
  frame->ack = {
      .present = true, .psn = wire::Psn(7), .aeth = {.syndrome = wire::kSyndromeAckNoCredits, .msn = 3}};
  joined.a->commit(*frame);
  EXPECT_EQ(joined.b->poll(receiver, {}, 4), 1u);
  EXPECT_EQ(receiver.last.bth.opcode.value, 0x11);
  EXPECT_EQ(receiver.last.bth.psn, wire::Psn(7));
  receiver = {};
  std::vector<std::uint8_t> data(9);
  fill_content(data, 0);
  EXPECT_TRUE(send_numbered(*joined.a, path, 0, data));
  EXPECT_EQ(joined.b->poll(receiver, {}, 4), 1u);
  EXPECT_TRUE(receiver.all_right());
  ::munmap(gone, 65536);
  ::sigaction(SIGSEGV, &old, nullptr);
}

TEST(ShmLink, TheOriginFollowsThePathOfEachFrame) {
  JoinedLinks joined;
  auto path = test_path(joined.a_to_b);
  CheckingReceiver receiver;
  const std::vector<std::uint8_t> none;
  for (std::uint32_t i = 0; i < 6; ++i) {
    path.local = wire::gid_of_ipv4({10, 0, 0, static_cast<std::uint8_t>(i / 2)});
    path.traffic_class = i >= 4 ? 3 : 0;
    ASSERT_TRUE(send_numbered(*joined.a, path, i, none));
    ASSERT_EQ(joined.b->poll(receiver, {}, 1), 1u);
    EXPECT_EQ(receiver.last_origin.source, path.local);
    EXPECT_EQ(receiver.last_origin.destination, path.remote);
    EXPECT_EQ(receiver.last_origin.ecn_marked, i >= 4);
    EXPECT_EQ(receiver.last_origin.grh, nullptr);
  }
}

void send_datagram(ShmLink& link, const objects::Path& path, std::size_t length) {
  static const std::vector<std::uint8_t> zeroes(65536);
  objects::Frame* frame = link.reserve(path);
  ASSERT_NE(frame, nullptr);
  wire::TransportHeaders headers;
  headers.bth.opcode = wire::Opcode(wire::Transport::kUnreliableDatagram, wire::Step::kSendOnly);
  headers.bth.pad = wire::pad_for(length);
  frame->header_octets =
      static_cast<std::uint8_t>(wire::emit_transport_headers(headers, frame->header.data()));
  frame->add_span(zeroes.data(), length);
  link.commit(*frame);
}

TEST(ShmLink, ADatagramComesWithTheGrhAreaOfItsFamily) {
  JoinedLinks joined;
  auto path = test_path(joined.a_to_b);
  path.traffic_class = 0x20;
  path.hop_limit = 17;
  CheckingReceiver receiver;
  send_datagram(*joined.a, path, 9);
  ASSERT_EQ(joined.b->poll(receiver, {}, 1), 1u);
  ASSERT_EQ(receiver.grh.size(), wire::kGrhOctets);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(receiver.grh[i], 0);
  receiver.grh.resize(200);  // the bytes that the total length announces
  const auto v4 = wire::parse_ipv4(Octets(receiver.grh).subspan(20));
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(v4->total_length, 20 + 8 + 12 + 8 + 12 + 4);
  EXPECT_EQ(v4->ttl, 17);
  EXPECT_EQ(v4->tos, 0x20);
  EXPECT_EQ(wire::gid_of(v4->source), path.local);
  EXPECT_EQ(wire::gid_of(v4->destination), path.remote);

  path.local.octets[0] = 0xfd;
  path.remote.octets[0] = 0xfd;
  path.flow_label = 0x12345;
  send_datagram(*joined.a, path, 9);
  ASSERT_EQ(joined.b->poll(receiver, {}, 1), 1u);
  receiver.grh.resize(200);
  const auto v6 = wire::parse_ipv6(receiver.grh);
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->payload_length, 8 + 12 + 8 + 12 + 4);
  EXPECT_EQ(v6->flow_label, 0x12345u);
  EXPECT_EQ(wire::gid_of(v6->source), path.local);
  EXPECT_EQ(wire::gid_of(v6->destination), path.remote);
}

TEST(ShmLink, WhatANicWouldDropIsDroppedAndCountedByReason) {
  JoinedLinks joined;
  const auto path = test_path(joined.a_to_b, kShmTrainOctetsMax);
  const auto send_raw = [&](std::uint8_t opcode, std::uint8_t header_octets, std::size_t payload,
                            std::int32_t corrupt) {
    static const std::vector<std::uint8_t> zeroes(65536);
    objects::Frame* frame = joined.a->reserve(path);
    frame->header.fill(0);
    frame->header[0] = opcode;
    frame->header_octets = header_octets;
    frame->corrupt_bit = corrupt;
    if (payload != 0) frame->add_span(zeroes.data(), payload);
    joined.a->commit(*frame);
  };
  send_raw(0x04, 12, 8, 5);      // valid, but corrupted on the way
  send_raw(0xff, 12, 8, -1);     // unknown opcode
  send_raw(0x0a, 12, 8, -1);     // WRITE ONLY without its RETH
  send_raw(0x04, 16, 8, -1);     // more headers than the opcode has
  send_raw(0x04, 4, 8, -1);      // incomplete BTH
  send_raw(0x11, 16, 8, -1);     // an ACK with payload
  send_raw(0x04, 12, 7, -1);     // the pad does not match the payload
  send_raw(0x64, 20, 8192, -1);  // a datagram longer than any MTU
  send_raw(0x04, 12, 8, -1);     // valid
  CheckingReceiver receiver;
  EXPECT_EQ(joined.b->poll(receiver, {}, 64), 9u);
  EXPECT_EQ(receiver.packets, 1u);
  EXPECT_EQ(counter(*joined.b, "shm_dropped_corrupted"), 1u);
  EXPECT_EQ(counter(*joined.b, "shm_dropped_bad_headers"), 4u);
  EXPECT_EQ(counter(*joined.b, "shm_dropped_bad_payload_length"), 3u);
}

// A record takes nothing from the records before it, except the route.
TEST(ShmLink, EveryRecordHasItsOwnHeadersAndTheLastRoute) {
  struct Recorder final : Receiver {
    void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& from) override {
      headers = packet.headers;
      octets = packet.payload.size();
      origin = from;
    }
    wire::TransportHeaders headers;
    std::size_t octets = 0;
    objects::PacketOrigin origin;
  } recorder;
  JoinedLinks joined;
  auto path = test_path(joined.a_to_b, kShmTrainOctetsMax);
  const auto expect_same = [&](wire::Step step, std::uint32_t raw, std::size_t length) {
    static const std::vector<std::uint8_t> zeroes(256);
    wire::TransportHeaders headers;
    headers.bth = {.opcode = wire::Opcode(wire::Transport::kReliableConnection, step),
                   .solicited = raw % 2 != 0,
                   .pad = wire::pad_for(length),
                   .destination = wire::Qpn(raw),
                   .ack_request = raw % 3 != 0,
                   .psn = wire::Psn(raw * 77)};
    if (wire::shape_of(headers.bth.opcode).immediate) headers.immediate = {raw};
    if (wire::shape_of(headers.bth.opcode).aeth) headers.aeth = {.syndrome = 0x65, .msn = raw};
    objects::Frame* frame = joined.a->reserve(path);
    frame->header_octets =
        static_cast<std::uint8_t>(wire::emit_transport_headers(headers, frame->header.data()));
    if (length != 0) frame->add_span(zeroes.data(), length);
    joined.a->commit(*frame);
    ASSERT_EQ(joined.b->poll(recorder, {}, 64), 1u);
    EXPECT_EQ(recorder.headers, headers);
    EXPECT_EQ(recorder.octets, length);
    EXPECT_EQ(recorder.origin.source, path.local);
    EXPECT_EQ(recorder.origin.destination, path.remote);
    EXPECT_EQ(recorder.origin.ecn_marked, (path.traffic_class & 3) == 3);
    EXPECT_EQ(recorder.origin.grh, nullptr);
  };
  for (std::uint32_t round = 1; round < 4; ++round) {
    expect_same(wire::Step::kSendOnlyImmediate, 0xabc0 + round, 9);
    expect_same(wire::Step::kSendOnly, 0xdef0 + round, 200);
    expect_same(wire::Step::kSendFirst, 0x1230 + round, 64);
    expect_same(wire::Step::kAcknowledge, 0x7890 + round, 0);
    expect_same(wire::Step::kSendOnly, 0x4560 + round, 0);
    path.remote.octets[15] = static_cast<std::uint8_t>(round);
    path.traffic_class = static_cast<std::uint8_t>(round);
  }
}

TEST(ShmLink, AnAckThatRidesArrivesAsAPacketBeforeItsRequest) {
  struct Recorder final : Receiver {
    void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override {
      packets.push_back(packet.headers);
      origins.push_back(origin.party);
    }
    std::vector<wire::TransportHeaders> packets;
    std::vector<std::uint32_t> origins;
  } recorder;
  JoinedLinks joined;
  const auto path = test_path(joined.a_to_b, kShmTrainOctetsMax);
  const auto send = [&](std::uint8_t opcode, std::uint8_t header_octets, std::uint8_t syndrome) {
    static const std::vector<std::uint8_t> zeroes(8);
    objects::Frame* frame = joined.a->reserve(path);
    frame->header.fill(0);
    frame->header[0] = opcode;
    frame->header[7] = 0x42;  // the QP
    frame->header_octets = header_octets;
    frame->add_span(zeroes.data(), zeroes.size());
    frame->ack = {
        .present = true, .psn = wire::Psn(0xabcdef), .aeth = {.syndrome = syndrome, .msn = 0x123456}};
    joined.a->commit(*frame);
  };
  send(0x04, 12, wire::kSyndromeAckNoCredits);
  EXPECT_EQ(joined.b->poll(recorder, {}, 64), 1u);
  ASSERT_EQ(recorder.packets.size(), 2u);
  EXPECT_EQ(recorder.packets[0].bth.opcode.value, 0x11);
  EXPECT_EQ(recorder.packets[0].bth.destination, wire::Qpn(0x42));
  EXPECT_EQ(recorder.packets[0].bth.psn, wire::Psn(0xabcdef));
  EXPECT_EQ(recorder.packets[0].aeth.msn, 0x123456u);
  EXPECT_EQ(recorder.packets[1].bth.opcode.value, 0x04);
  EXPECT_EQ(recorder.origins[0], recorder.origins[1]);
  EXPECT_EQ(counter(*joined.b, "shm_frames_received"), 1u);
  // No honest peer writes these: a NAK, and an ACK with a request of another transport.
  send(0x04, 12, wire::kSyndromeNakBase);
  send(0x64, 20, wire::kSyndromeAckNoCredits);
  EXPECT_EQ(joined.b->poll(recorder, {}, 64), 2u);
  EXPECT_EQ(recorder.packets.size(), 2u);
  EXPECT_EQ(counter(*joined.b, "shm_dropped_bad_headers"), 2u);
}

TEST(ShmLink, ANumberNeverMeansAnotherChannel) {
  JoinedLinks joined;
  const auto path = test_path(joined.a_to_b);
  joined.a->remove_channel(joined.a_to_b);
  auto pair = ShmChannel::create(kRingOctetsMin).value();
  EXPECT_NE(joined.a->add_channel(std::move(pair.own)).value(), joined.a_to_b);
  EXPECT_TRUE(send_numbered(*joined.a, path, 0, {}));
  joined.a->flush({});
  EXPECT_EQ(counter(*joined.a, "shm_dropped_no_channel"), 1u);
  EXPECT_EQ(joined.a->channel_count(), 1u);
}

TEST(ShmLink, ArmingSeesWhatIsThereAndCallsForADoorbellOtherwise) {
  JoinedLinks joined;
  const auto path = test_path(joined.a_to_b);
  pollfd waits{.fd = joined.b->fd(), .events = POLLIN, .revents = 0};
  const timespec no_time{};
  ASSERT_TRUE(joined.b->arm());
  joined.b->disarm();
  ASSERT_TRUE(send_numbered(*joined.a, path, 0, {}));
  joined.a->flush({});
  EXPECT_EQ(counter(*joined.a, "shm_doorbells_rung"), 0u);
  EXPECT_FALSE(joined.b->arm());
  joined.b->disarm();
  CheckingReceiver receiver;
  EXPECT_EQ(joined.b->poll(receiver, {}, 4), 1u);

  ASSERT_TRUE(joined.b->arm());
  EXPECT_EQ(raw::ppoll(&waits, 1, &no_time), 0);
  ASSERT_TRUE(send_numbered(*joined.a, path, 1, {}));
  ASSERT_TRUE(send_numbered(*joined.a, path, 2, {}));
  joined.a->flush({});
  ASSERT_TRUE(send_numbered(*joined.a, path, 3, {}));
  joined.a->flush({});
  EXPECT_EQ(counter(*joined.a, "shm_doorbells_rung"), 1u) << "one doorbell for each sleep";
  EXPECT_EQ(raw::ppoll(&waits, 1, &no_time), 1);
  joined.b->disarm();
  joined.b->handle_doorbells();
  EXPECT_EQ(raw::ppoll(&waits, 1, &no_time), 0);
  EXPECT_EQ(joined.b->poll(receiver, {}, 4), 3u);
}

TEST(ShmLink, NobodyRingsForWhoAttends) {
  JoinedLinks joined;
  const auto path = test_path(joined.a_to_b);
  joined.b->attend();
  joined.control(0).armed.store(1);  // writers must ignore it
  ASSERT_TRUE(send_numbered(*joined.a, path, 0, {}));
  joined.a->flush({});
  EXPECT_EQ(counter(*joined.a, "shm_doorbells_rung"), 0u);
  CheckingReceiver receiver;
  EXPECT_EQ(joined.b->poll(receiver, {}, 4), 1u);
  joined.b->attend_no_more();
  ASSERT_TRUE(joined.b->arm());
  ASSERT_TRUE(send_numbered(*joined.a, path, 1, {}));
  joined.a->flush({});
  EXPECT_EQ(counter(*joined.a, "shm_doorbells_rung"), 1u);
  joined.b->disarm();
}

// A reader polls briefly and then sleeps, while a writer sends the next frame once the last one was taken. A
// frame that is neither seen nor signalled would be waited for in vain.
TEST(ShmLink, NoFrameIsLostBetweenAttendingAndSleeping) {
  constexpr std::uint32_t kFrames = 20'000;
  JoinedLinks joined;
  const auto path = test_path(joined.a_to_b);
  std::atomic<std::uint32_t> taken{0};
  std::thread writer([&] {
    for (std::uint32_t i = 0; i < kFrames; ++i) {
      while (taken.load() != i) {
      }
      for (std::uint32_t spin = i * 7 % 600; spin != 0; --spin)
        std::atomic_signal_fence(std::memory_order_seq_cst);
      EXPECT_TRUE(send_numbered(*joined.a, path, i, {}));
      joined.a->flush({});
    }
  });
  CheckingReceiver receiver;
  pollfd waits{.fd = joined.b->fd(), .events = POLLIN, .revents = 0};
  const timespec patience{.tv_sec = 10, .tv_nsec = 0};
  bool lost = false;
  while (receiver.packets != kFrames && !lost) {
    joined.b->attend();
    for (int i = 0; i < 4; ++i) {
      joined.b->poll(receiver, {}, 4);
      taken = static_cast<std::uint32_t>(receiver.packets);
    }
    joined.b->attend_no_more();
    if (joined.b->arm() && receiver.packets != kFrames) lost = raw::ppoll(&waits, 1, &patience) != 1;
    joined.b->disarm();
    joined.b->handle_doorbells();
  }
  EXPECT_FALSE(lost) << "at frame " << receiver.packets;
  for (; receiver.packets != kFrames; taken = static_cast<std::uint32_t>(receiver.packets))
    joined.b->poll(receiver, {}, 4);
  writer.join();
  EXPECT_EQ(receiver.wrong_order + receiver.wrong_content, 0u);
}

TEST(ShmLink, AWriterWithoutRoomIsWokenWhenSomeComes) {
  JoinedLinks joined;
  const auto path = test_path(joined.a_to_b, kShmTrainOctetsMax);
  const std::vector<std::uint8_t> data(30'000);
  std::uint32_t sent = 0;
  while (send_numbered(*joined.a, path, sent, data)) ++sent;
  ASSERT_TRUE(joined.a->arm());
  CheckingReceiver receiver;
  while (joined.b->poll(receiver, {}, 1) != 0) {
  }
  EXPECT_EQ(counter(*joined.b, "shm_doorbells_rung"), 1u);
  EXPECT_FALSE(joined.a->arm());
  joined.a->disarm();
  EXPECT_TRUE(send_numbered(*joined.a, path, sent, data));
}

// The sleeping thread armed when there was room. The program then filled the ring and sleeps as well.
TEST(ShmLink, AWriterThatFillsTheRingWhileArmedIsWoken) {
  JoinedLinks joined;
  const auto path = test_path(joined.a_to_b);
  const std::vector<std::uint8_t> data(4096);
  ASSERT_TRUE(joined.a->arm());
  std::uint32_t sent = 0;
  while (send_numbered(*joined.a, path, sent, data)) ++sent;
  joined.a->flush({});
  CheckingReceiver receiver;
  while (joined.b->poll(receiver, {}, 64) != 0) {
  }
  EXPECT_EQ(receiver.packets, sent);
  EXPECT_EQ(counter(*joined.b, "shm_doorbells_rung"), 1u);
  joined.a->disarm();
  EXPECT_TRUE(send_numbered(*joined.a, path, sent, data));
}

TEST(ShmLink, HangingUpIsToldAfterTheLastFrame) {
  JoinedLinks joined;
  ASSERT_TRUE(send_numbered(*joined.a, test_path(joined.a_to_b), 0, {}));
  joined.a.reset();
  EXPECT_FALSE(joined.b->poll_lost().has_value());
  joined.b->handle_doorbells();
  EXPECT_FALSE(joined.b->poll_lost().has_value()) << "a frame is still there";
  EXPECT_FALSE(joined.b->arm());
  CheckingReceiver receiver;
  EXPECT_EQ(joined.b->poll(receiver, {}, 4), 1u);
  EXPECT_EQ(joined.b->poll_lost(), joined.b_to_a);
  EXPECT_FALSE(joined.b->poll_lost().has_value());
  EXPECT_TRUE(send_numbered(*joined.b, test_path(joined.b_to_a), 0, {}));
  EXPECT_EQ(counter(*joined.b, "shm_dropped_no_channel"), 1u);
  joined.b->remove_channel(joined.b_to_a);
  EXPECT_TRUE(joined.b->arm());
}

TEST(ShmLink, AConsumedPositionThatCannotBeCostsTheChannel) {
  for (const std::uint64_t lie :
       {std::uint64_t{64} << 40, ~std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{128 * 1024 + 1}}) {
    JoinedLinks joined;
    const auto path = test_path(joined.a_to_b);
    const std::vector<std::uint8_t> data(4096);
    for (std::uint32_t i = 0; i < 1000 && counter(*joined.a, "shm_lost_bad_record") == 0; ++i) {
      static_cast<void>(send_numbered(*joined.a, path, i, data));
      joined.control(0).consumed.store(lie);
    }
    EXPECT_EQ(counter(*joined.a, "shm_lost_bad_record"), 1u) << lie;
    EXPECT_EQ(joined.a->poll_lost(), joined.a_to_b);
  }
}

// Corrupts shared memory at critical and at random places while both ends work. Frames may be lost, but
// nothing crashes, every call returns, and a broken channel is reported as lost.
TEST(ShmLink, ScribblingHurtsNobodyButTheScribbler) {
  std::uint64_t lost = 0;
  std::uint64_t dropped = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    JoinedLinks joined;
    const auto path = test_path(joined.a_to_b, kShmTrainOctetsMax);
    CheckingReceiver receiver;
    Prng prng(seed);
    std::vector<std::uint8_t> data;
    std::uint8_t* ring = joined.memory + ring_offset(0, kRingOctetsMin);
    std::size_t offset = 0;
    for (std::uint32_t i = 0; i < 200; ++i) {
      data.resize(numbered_length(i, 20'000));
      static_cast<void>(send_numbered(*joined.a, path, i, data));
      const std::size_t record = offset;
      offset = (offset + record_octets(i == 0, 16, data.size())) & (kRingOctetsMin - 1);
      switch (prng.below(6)) {
        case 0: ring[record + 8 + prng.below(8)] = static_cast<std::uint8_t>(prng.next()); break;
        case 1: ring[record + prng.below(64)] ^= static_cast<std::uint8_t>(1u << prng.below(8)); break;
        case 2: joined.memory[prng.below(joined.octets)] = static_cast<std::uint8_t>(prng.next()); break;
        case 3: joined.memory[prng.below(1024)] = static_cast<std::uint8_t>(prng.next()); break;
        default: break;
      }
      joined.a->flush({});
      joined.b->poll(receiver, {}, 3);
    }
    lost += joined.b->poll_lost().has_value() || joined.a->poll_lost().has_value();
    dropped +=
        counter(*joined.b, "shm_dropped_bad_headers") + counter(*joined.b, "shm_dropped_bad_payload_length");
  }
  EXPECT_GT(lost, 0u);
  EXPECT_GT(dropped, 0u);
}

TEST(ShmLink, ManyChannelsAreAllServed) {
  constexpr std::size_t kPeers = 63;
  auto hub = ShmLink::create().value();
  std::vector<std::unique_ptr<ShmLink>> peers;
  std::vector<objects::Path> paths;
  for (std::size_t i = 0; i < kPeers; ++i) {
    auto pair = ShmChannel::create(kRingOctetsMin).value();
    ASSERT_TRUE(hub->add_channel(std::move(pair.own)).ok());
    peers.push_back(ShmLink::create().value());
    paths.push_back(test_path(
        peers.back()
            ->add_channel(
                ShmChannel::open(std::move(pair.peer_memory), std::move(pair.peer_doorbell)).value())
            .value()));
  }
  CheckingReceiver receiver;
  // A channel that always has frames must not hide the others.
  for (std::uint32_t round = 0; round < 100; ++round) {
    const std::size_t quiet = round % kPeers;
    ASSERT_TRUE(send_numbered(*peers[quiet], paths[quiet], 1'000'000, {}));
    bool heard = false;
    for (int polls = 0; polls < 20 && !heard; ++polls) {
      for (int i = 0; i < 8; ++i) static_cast<void>(send_numbered(*peers[7], paths[7], 7, {}));
      const auto before = receiver.wrong_order;
      hub->poll(receiver, {}, 16);
      heard = receiver.wrong_order != before && receiver.packets != 0;
    }
    EXPECT_TRUE(heard) << round;
  }
  while (hub->poll(receiver, {}, 64) != 0) {
  }
  std::uint64_t sent = 0;
  for (auto& peer : peers) sent += counter(*peer, "shm_frames_sent");
  EXPECT_EQ(receiver.packets, sent);
}

}  // namespace rrdma::link::shm_link_test
