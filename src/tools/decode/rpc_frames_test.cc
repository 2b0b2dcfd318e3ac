#include "tools/decode/rpc_frames.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "dissection/packet_fields.h"
#include "lib/rpc/frame.h"
#include "wire/cm_ip_header.h"

namespace rrdma::tools::rpc_frames_test {

namespace frames = rpc::detail;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kClientQp = 0x11, kServerQp = 0x22;
constexpr wire::CommId kClientId{7}, kServerId{8};

wire::Dissection between(bool from_server) {
  wire::Dissection packet;
  packet.verdict = wire::PacketVerdict::kGood;
  wire::Ipv4Header ip;
  ip.source = {{10, 0, 0, static_cast<std::uint8_t>(from_server ? 2 : 1)}};
  ip.destination = {{10, 0, 0, static_cast<std::uint8_t>(from_server ? 1 : 2)}};
  packet.frame.emplace();
  packet.frame->network = ip;
  packet.transport.emplace();
  return packet;
}

wire::Dissection send(const Bytes& octets, wire::Step step = wire::Step::kSendOnly) {
  wire::Dissection packet = between(false);
  packet.transport->headers.bth.opcode = wire::Opcode(wire::Transport::kReliableConnection, step);
  packet.transport->headers.bth.destination = wire::Qpn(kServerQp);
  packet.transport->payload = octets;
  return packet;
}

// A frame inside a message of rrdma::comm.
Bytes message_of(const frames::Frame& frame, std::size_t body = 0) {
  Bytes octets(8 + frames::head_size(frame) + body);
  const auto length = static_cast<std::uint32_t>(octets.size() - 8);
  octets[0] = 1;
  octets[2] = 3;
  std::memcpy(octets.data() + 4, &length, sizeof(length));
  frames::emit_head(frame, reinterpret_cast<std::byte*>(octets.data() + 8));
  return octets;
}

frames::Frame call() {
  frames::Frame frame;
  frame.kind = frames::Kind::kCall;
  frame.call = 0x10002;
  frame.method = 0x1234;
  return frame;
}

template <typename Room, typename Hello>
void say_hello(Room&& room, const Hello& hello) {
  const char head[] = {'R', 'c', 1, static_cast<char>(hello.size()), 0, 64, 0, 0, 0, 0, 16, 0};
  std::memcpy(room.data(), head, sizeof(head));
  std::memcpy(room.data() + sizeof(head), hello.data(), hello.size());
}

wire::Dissection req() {
  wire::Dissection packet = between(false);
  wire::CmReq message;
  message.local_comm_id = kClientId;
  message.local_qpn = wire::Qpn(kClientQp);
  say_hello(std::span(message.private_data).subspan(wire::kIpCmHeaderOctets),
            frames::emit(frames::ClientHello{}));
  packet.cm.emplace().message = message;
  return packet;
}
wire::Dissection rep() {
  wire::Dissection packet = between(true);
  wire::CmRep message;
  message.local_comm_id = kServerId;
  message.remote_comm_id = kClientId;
  message.local_qpn = wire::Qpn(kServerQp);
  frames::ServerHello hello;
  hello.max_calls = 100;
  say_hello(std::span(message.private_data), frames::emit(hello));
  packet.cm.emplace().message = message;
  return packet;
}

TEST(RpcFrames, AreKnownByTheirHandshake) {
  const Bytes octets = message_of(call(), 5);
  RpcFrames rpc(false, {});
  EXPECT_EQ(rpc.line(send(octets), octets), "") << "this may be anything";
  rpc.learn(req());
  EXPECT_EQ(rpc.line(send(octets), octets), "") << "nobody answered";
  rpc.learn(rep());
  EXPECT_EQ(rpc.line(send(octets), octets), "rpc CALL 0x00010002 0x0000000000001234, 5 bytes");
  wire::Dissection other = send(octets);
  other.transport->headers.bth.destination = wire::Qpn(0x33);
  EXPECT_EQ(rpc.line(other, octets), "") << "another connection";
  EXPECT_EQ(rpc.line(send(octets, wire::Step::kSendLast), octets), "") << "the middle of something";
}

TEST(RpcFrames, HandshakesOfOthersAreNot) {
  RpcFrames rpc(false, {});
  wire::Dissection foreign = req();
  std::get<wire::CmReq>(foreign.cm->message).private_data[wire::kIpCmHeaderOctets + 12] = 'X';
  rpc.learn(foreign);
  rpc.learn(rep());
  const Bytes octets = message_of(call());
  EXPECT_EQ(rpc.line(send(octets), octets), "");
}

TEST(RpcFrames, AreNamed) {
  const RpcFrames rpc(true, {"store.Store/Get"});
  frames::Frame frame = call();
  frame.method = 0x9e4f9d29a2d9ee03;  // an unknown method
  frame.flags = frames::flag::kOffered;
  frame.offered = {0x1000, 0x77, 4096};
  const Bytes octets = message_of(frame);
  EXPECT_EQ(rpc.line(send(octets), octets), "rpc CALL 0x00010002 0x9e4f9d29a2d9ee03 (offered), 0 bytes");
  frames::Frame reply;
  reply.kind = frames::Kind::kReply;
  reply.call = 0x10002;
  reply.status = 5;
  reply.message = "no such key";
  const Bytes answer = message_of(reply);
  EXPECT_EQ(rpc.line(send(answer), answer), "rpc REPLY 0x00010002 not found, 0 bytes");
  wire::Field root;
  rpc.add_fields(root, send(answer), answer);
  ASSERT_EQ(root.children.size(), 1U);
  bool said = false;
  for (const wire::Field& field : root.children[0].children) said |= field.text == "no such key";
  EXPECT_TRUE(said);
}

// Several frames in one message, as far as one packet holds them.
TEST(RpcFrames, ArePacked) {
  const RpcFrames rpc(true, {});
  frames::Frame pack;
  pack.kind = frames::Kind::kPack;
  Bytes octets = message_of(pack);
  frames::Frame item;
  item.kind = frames::Kind::kItem;
  item.call = 0x10002;
  const std::pair<frames::Frame, std::size_t> all[] = {{call(), 5}, {item, 700}, {item, 600}};
  for (const auto& [frame, body] : all) {
    const std::size_t size = frames::head_size(frame) + body;
    const std::size_t at = octets.size();
    octets.resize(at + frames::kPackedHead + size);
    frames::emit_packed_head(size, reinterpret_cast<std::byte*>(octets.data() + at));
    frames::emit_head(frame, reinterpret_cast<std::byte*>(octets.data() + at + frames::kPackedHead));
  }
  const auto length = static_cast<std::uint32_t>(octets.size() - 8);
  std::memcpy(octets.data() + 4, &length, sizeof(length));
  const std::string begin =
      "rpc PACK of " + wire::octets_text(length) + ": CALL 0x00010002 0x0000000000001234, 5 bytes; ";
  EXPECT_EQ(rpc.line(send(octets), octets), begin + "ITEM 0x00010002, 700 bytes; ITEM 0x00010002, 600 bytes");
  EXPECT_EQ(rpc.line(send(octets, wire::Step::kSendFirst), Octets(octets).first(256)),
            begin + "ITEM 0x00010002, 700 bytes");
  wire::Field root;
  rpc.add_fields(root, send(octets), octets);
  ASSERT_EQ(root.children.size(), 1U);
  EXPECT_EQ(root.children[0].children.back().key, "frame_3");
  octets[8 + 8 + 2] = 1;
  EXPECT_EQ(rpc.line(send(octets), octets), "rpc, no frame");
}

// The first packet of a message that is not captured as a whole is not checked as a pack.
TEST(RpcFrames, APackOfNothingEnds) {
  const RpcFrames rpc(true, {});
  frames::Frame pack;
  pack.kind = frames::Kind::kPack;
  Bytes octets = message_of(pack);
  octets.resize(4096);
  const std::uint32_t length = 8000;
  std::memcpy(octets.data() + 4, &length, sizeof(length));
  wire::Field root;
  rpc.add_fields(root, send(octets, wire::Step::kSendFirst), octets);
  ASSERT_EQ(root.children.size(), 1U);
}

TEST(RpcFrames, HellosAreShown) {
  const RpcFrames rpc(false, {});
  wire::Field root;
  rpc.add_fields(root, req(), {});
  rpc.add_fields(root, rep(), {});
  ASSERT_EQ(root.children.size(), 2U);
  EXPECT_EQ(root.children[1].children[2].text, "100");
}

// Partial frames, and data that is not a frame.
TEST(RpcFrames, PiecesAndNoise) {
  const RpcFrames rpc(true, {});
  Bytes octets = message_of(call(), 3000);
  const Octets first = Octets(octets).first(1024);
  EXPECT_EQ(rpc.line(send(octets, wire::Step::kSendFirst), first),
            "rpc CALL 0x00010002 0x0000000000001234, 3000 bytes");
  EXPECT_EQ(rpc.line(send(octets), Octets(octets).first(20)), "rpc, cut");
  octets[8] = 99;
  EXPECT_EQ(rpc.line(send(octets), octets), "rpc, no frame");
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    Bytes noise(random() % 80);
    for (auto& octet : noise) octet = static_cast<std::uint8_t>(random());
    if (noise.size() > 10) {
      noise[0] = 1;
      noise[1] = noise[5] = noise[6] = noise[7] = 0;
      noise[8] = static_cast<std::uint8_t>(random() % 11);
    }
    wire::Field root;
    rpc.add_fields(root, send(noise), noise);
    static_cast<void>(rpc.line(send(noise), noise));
  }
}

}  // namespace rrdma::tools::rpc_frames_test
