#include "nic/links/capture_stream.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "wire/pcapng_writer.h"

namespace rrdma::nic::capture_stream_test {

struct Told {
  std::uint64_t packets = 0, statistics = 0;
};

// Reads everything until the socket is closed.
Told read_to_the_end(int socket) {
  Told told;
  std::vector<std::uint8_t> message(1 << 20);
  for (;;) {
    const ssize_t length = ::recv(socket, message.data(), message.size(), 0);
    if (length <= 0) return told;
    Octets rest = Octets(message).first(static_cast<std::size_t>(length));
    while (!rest.empty()) {
      const std::uint32_t octets = swap_octets(load_be32(rest.data() + 4));
      const link::BlockKind kind = link::kind_of(rest.first(octets));
      told.packets += kind == link::BlockKind::kPacket ? 1 : 0;
      told.statistics += kind == link::BlockKind::kStatistics ? 1 : 0;
      rest = rest.subspan(octets);
    }
  }
}

class Stream : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    reader_ = OwnedFd(ends[0]);
    stream_ = std::make_unique<CaptureStream>(OwnedFd(ends[1]));
    writer_ = std::make_unique<wire::PcapngWriter>([this](Octets block) { stream_->append(block); }, "test");
    interface_ = writer_->add_interface(wire::LinkType::kEthernet, "rrdma0");
  }

  void write_packets(std::uint64_t count) {
    const std::array<std::uint8_t, 1000> octets{};
    const Octets packet(octets);
    for (std::uint64_t i = 0; i < count; ++i)
      writer_->write({.interface = interface_, .time_ns = i, .pieces = std::span(&packet, 1)});
    stream_->write_out();
  }

  OwnedFd reader_;
  std::unique_ptr<CaptureStream> stream_;
  std::unique_ptr<wire::PcapngWriter> writer_;
  std::uint32_t interface_ = 0;
};

TEST_F(Stream, TellsWhatIsMissingToAReaderThatComesLate) {
  constexpr std::uint64_t kPackets = 5'000;
  write_packets(kPackets);  // more than a socket holds
  const std::uint64_t lost = stream_->take_lost();
  ASSERT_GT(lost, 0u);
  writer_->write_statistics(interface_, 0, kPackets, lost);
  stream_->write_out();
  auto told = std::async(std::launch::async, [this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return read_to_the_end(reader_.get());
  });
  stream_.reset();
  const Told all = told.get();
  EXPECT_EQ(all.packets, kPackets - lost);
  EXPECT_EQ(all.statistics, 1u);
}

TEST_F(Stream, EndsWithAReaderThatIsGone) {
  write_packets(5'000);
  writer_->write_statistics(interface_, 0, 5'000, stream_->take_lost());
  reader_.reset();
  write_packets(100);
  EXPECT_GE(stream_->take_lost(), 100u);  // nobody reads them, and the program is not delayed
  const auto begin = std::chrono::steady_clock::now();
  stream_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST_F(Stream, EndsWithAReaderThatStays) {
  write_packets(5'000);
  writer_->write_statistics(interface_, 0, 5'000, stream_->take_lost());
  stream_.reset();
  EXPECT_EQ(read_to_the_end(reader_.get()).statistics, 0u);
}

}  // namespace rrdma::nic::capture_stream_test
