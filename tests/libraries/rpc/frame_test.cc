// Frames: emitted frames parse again, and nothing else parses.
#include "lib/rpc/frame.h"

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <string>
#include <vector>

namespace rrdma::rpc::detail::frame_test {

std::vector<std::byte> octets_of(const Frame& frame) {
  std::vector<std::byte> octets(head_size(frame) + frame.body.size());
  emit_head(frame, octets.data());
  std::copy(frame.body.begin(), frame.body.end(),
            octets.end() - static_cast<std::ptrdiff_t>(frame.body.size()));
  return octets;
}
std::span<const std::byte> as_octets(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

Frame a_call() {
  Frame frame;
  frame.kind = Kind::kCall;
  frame.flags = flag::kOffered | flag::kLent;
  frame.call = 0x12345;
  frame.method = 0x1122334455667788;
  frame.timeout = 5'000'000;
  frame.schema = 77;
  frame.window = 65536;
  frame.offered = {0x1000, 5, 100};
  frame.lent = {0x2000, 6, 200};
  frame.body = as_octets("argument");
  return frame;
}
Frame a_reply() {
  Frame frame;
  frame.kind = Kind::kReply;
  frame.call = 9;
  frame.status = 5;
  frame.message = "no such key";
  frame.details = "more";
  return frame;
}

TEST(Frames, ACallIsReadAgain) {
  Metadata metadata;
  metadata.add("a", "b").add("name", std::string("\0\1", 2));
  std::vector<std::byte> emitted(emitted_size(metadata));
  emit_metadata(metadata, emitted.data());
  Frame frame = a_call();
  frame.metadata = emitted;
  const auto octets = octets_of(frame);
  const auto again = parse_frame(octets);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->method, frame.method);
  EXPECT_EQ(again->timeout, frame.timeout);
  EXPECT_EQ(again->schema, frame.schema);
  EXPECT_EQ(again->window, frame.window);
  EXPECT_EQ(again->offered, frame.offered);
  EXPECT_EQ(again->lent, frame.lent);
  EXPECT_EQ(again->call, frame.call);
  EXPECT_EQ(again->body.size(), 8U);
  Metadata parsed;
  EXPECT_TRUE(parse_metadata(again->metadata, parsed));
  EXPECT_EQ(parsed, metadata);
}

TEST(Frames, AReplyIsReadAgain) {
  const auto octets = octets_of(a_reply());
  const auto again = parse_frame(octets);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->status, 5);
  EXPECT_EQ(again->message, "no such key");
  EXPECT_EQ(again->details, "more");
  EXPECT_TRUE(again->body.empty());
}

// Truncated bytes are rejected, unless only the body is truncated.
TEST(Frames, WhatIsCutShortIsRefused) {
  for (const Frame& frame : {a_call(), a_reply()}) {
    const auto octets = octets_of(frame);
    for (std::size_t size = 0; size < head_size(frame); ++size)
      EXPECT_FALSE(parse_frame(std::span(octets).first(size))) << size;
  }
}

TEST(Frames, WhatIsNotAllowedIsRefused) {
  const auto refused = [](Frame frame, auto change) {
    auto octets = octets_of(frame);
    change(octets);
    return !parse_frame(octets).has_value();
  };
  EXPECT_TRUE(refused(a_call(), [](auto& o) { o[0] = std::byte{0}; })) << "an unknown kind";
  EXPECT_TRUE(refused(a_call(), [](auto& o) { o[0] = std::byte{99}; }));
  EXPECT_TRUE(refused(a_call(), [](auto& o) { o[1] = std::byte{0x43}; })) << "a flag of other kinds";
  EXPECT_TRUE(refused(a_call(), [](auto& o) { o[3] = std::byte{0xff}; })) << "metadata beyond the end";
  EXPECT_TRUE(refused(a_call(), [](auto& o) { o.resize(kLargeFrameLimit + 1); })) << "larger than a frame";
  Frame wraps = a_call();
  wraps.offered = {~std::uint64_t{0} - 5, 5, 100};
  EXPECT_TRUE(refused(wraps, [](auto&) {})) << "a region beyond the end of addresses";
  Frame none = a_call();
  none.lent.length = 0;
  EXPECT_TRUE(refused(none, [](auto&) {})) << "an empty region";
  EXPECT_TRUE(refused(a_reply(), [](auto& o) { o[8] = std::byte{17}; })) << "an unknown status";
  EXPECT_TRUE(refused(a_reply(), [](auto& o) { o[9] = std::byte{1}; })) << "a reserved octet";
  EXPECT_TRUE(refused(a_reply(), [](auto& o) { o.push_back(std::byte{1}); })) << "a result beside a failure";
  Frame window;
  window.kind = Kind::kWindow;
  EXPECT_TRUE(refused(window, [](auto&) {})) << "a window that grows by nothing";
  Frame item;
  item.kind = Kind::kItem;
  item.flags = flag::kMore | flag::kLast;
  item.body = as_octets("x");
  EXPECT_TRUE(refused(item, [](auto&) {})) << "the last one, and more of it";
}

TEST(Frames, WhatIsOfferedIsReadAgain) {
  Frame item;
  item.kind = Kind::kItem;
  item.flags = flag::kOffered | flag::kLast;
  item.offered = {0x1000, 7, 5000};
  const auto octets = octets_of(item);
  EXPECT_EQ(octets.size(), 24U);
  const auto again = parse_frame(octets);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->offered, item.offered);
  Frame reply;
  reply.kind = Kind::kReply;
  reply.flags = flag::kOffered;
  reply.offered = item.offered;
  const auto replied = octets_of(reply);
  const auto result = parse_frame(replied);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->offered, item.offered);
  Frame taken;
  taken.kind = Kind::kTaken;
  taken.address = 0x123456789abcdef0;
  const auto told = octets_of(taken);
  EXPECT_EQ(told.size(), 16U);
  const auto heard = parse_frame(told);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->address, taken.address);
}

TEST(Frames, WhatIsOfferedComesOnce) {
  Frame item;
  item.kind = Kind::kItem;
  item.offered = {0x1000, 7, 5000};
  item.flags = flag::kOffered | flag::kMore;
  EXPECT_FALSE(parse_frame(octets_of(item))) << "a whole item, and more of it";
  item.flags = flag::kOffered;
  item.body = as_octets("x");
  EXPECT_FALSE(parse_frame(octets_of(item))) << "an item in two places";
  Frame reply;
  reply.kind = Kind::kReply;
  reply.offered = item.offered;
  reply.flags = flag::kOffered | flag::kWritten;
  EXPECT_FALSE(parse_frame(octets_of(reply))) << "a result in two places";
  reply.flags = flag::kOffered;
  reply.body = as_octets("x");
  EXPECT_FALSE(parse_frame(octets_of(reply))) << "a result in two places";
  reply.body = {};
  reply.status = 5;
  EXPECT_FALSE(parse_frame(octets_of(reply))) << "a result beside a failure";
  Frame taken;
  taken.kind = Kind::kTaken;
  taken.body = as_octets("x");
  EXPECT_FALSE(parse_frame(octets_of(taken))) << "bytes after the end";
}

TEST(Frames, EncryptedOnesAreReadAgain) {
  Frame item;
  item.kind = Kind::kItem;
  item.flags = flag::kOffered | flag::kSealed;
  item.offered = {0x1000, 7, 5000, 0x123456789a};
  const auto octets = octets_of(item);
  EXPECT_EQ(octets.size(), 32U);
  const auto again = parse_frame(octets);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->offered, item.offered);
  item.offered.length = kSealTag;
  EXPECT_FALSE(parse_frame(octets_of(item))) << "nothing but a tag";
  item.flags = flag::kSealed;
  EXPECT_FALSE(parse_frame(octets_of(item))) << "nothing is offered";
  Frame key;
  key.kind = Kind::kKey;
  const std::string body(kKeyBody + 1, 'k');
  key.body = as_octets(body).first(kKeyBody);
  EXPECT_TRUE(parse_frame(octets_of(key)));
  key.body = as_octets(body);
  EXPECT_FALSE(parse_frame(octets_of(key)));
  Frame sealed;
  sealed.kind = Kind::kSealed;
  const std::string most(kLargeFrameLimit + kSealTag + 1, 's');
  sealed.body = as_octets(most).first(kLargeFrameLimit + kSealTag);
  EXPECT_TRUE(parse_frame(octets_of(sealed)));
  sealed.body = as_octets(most);
  EXPECT_FALSE(parse_frame(octets_of(sealed))) << "larger than a frame";
  sealed.body = as_octets(most).first(kSealTag);
  EXPECT_FALSE(parse_frame(octets_of(sealed))) << "nothing but a tag";
}

std::vector<std::byte> pack_of(std::initializer_list<Frame> all) {
  Frame pack;
  pack.kind = Kind::kPack;
  std::vector<std::byte> octets = octets_of(pack);
  for (const Frame& frame : all) {
    const auto one = octets_of(frame);
    std::array<std::byte, kPackedHead> head{};
    emit_packed_head(one.size(), head.data());
    octets.insert(octets.end(), head.begin(), head.end());
    octets.insert(octets.end(), one.begin(), one.end());
  }
  return octets;
}

TEST(Frames, APackIsReadAgain) {
  const auto octets = pack_of({a_call(), a_reply()});
  const auto pack = parse_frame(octets);
  ASSERT_TRUE(pack);
  EXPECT_EQ(pack->kind, Kind::kPack);
  auto rest = pack->body;
  const auto first = parse_frame(next_packed(rest));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->method, a_call().method);
  EXPECT_EQ(first->body.size(), 8U);
  const auto second = parse_frame(next_packed(rest));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->message, "no such key");
  EXPECT_TRUE(rest.empty());
}

TEST(Frames, APackThatIsNone) {
  EXPECT_FALSE(parse_frame(pack_of({}))) << "of nothing";
  const auto octets = pack_of({a_call(), a_reply()});
  for (std::size_t size = 0; size < octets.size(); ++size) {
    const bool whole = size == pack_of({a_call()}).size();
    EXPECT_EQ(parse_frame(std::span(octets).first(size)).has_value(), whole) << size;
  }
  auto reserved = octets;
  reserved[kPackHead + 3] = std::byte{1};
  EXPECT_FALSE(parse_frame(reserved));
  auto numbered = octets;
  numbered[4] = std::byte{1};
  EXPECT_FALSE(parse_frame(numbered)) << "it is of no call";
  auto small = octets;
  small[kPackHead] = std::byte{7};
  small[kPackHead + 1] = std::byte{0};
  EXPECT_FALSE(parse_frame(small)) << "one that is smaller than any frame";
}

TEST(Frames, MetadataThatIsNone) {
  Metadata into;
  EXPECT_FALSE(parse_metadata(as_octets(std::string_view("\0\0\0", 3)), into)) << "a name of no octets";
  EXPECT_FALSE(parse_metadata(as_octets(std::string_view("\1\0", 2)), into));
  EXPECT_FALSE(parse_metadata(as_octets(std::string_view("\1\5\0ab", 5)), into));
  EXPECT_FALSE(fits(Metadata().add("", "x")));
  EXPECT_FALSE(fits(Metadata().add(std::string(256, 'n'), "x")));
  EXPECT_FALSE(fits(Metadata().add("n", std::string(kMaxMetadata, 'x'))));
}

TEST(Frames, HellosAreReadAgain) {
  ClientHello client;
  client.max_result = 123;
  client.nonce[15] = std::byte{9};
  const auto said = emit(client);
  const auto heard = parse_client_hello(said);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->max_result, 123U);
  EXPECT_EQ(heard->nonce, client.nonce);
  EXPECT_FALSE(parse_client_hello(std::span(said).first(31)));
  ServerHello server;
  server.max_calls = 5;
  server.max_argument = 6;
  server.window = 7;
  const auto answered = emit(server);
  const auto answer = parse_server_hello(answered);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->max_calls, 5);
  EXPECT_EQ(answer->max_argument, 6U);
  EXPECT_EQ(answer->window, 7U);
  EXPECT_FALSE(parse_server_hello(std::span(answered).first(63)));
}

}  // namespace rrdma::rpc::detail::frame_test
