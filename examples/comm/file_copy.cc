// Copies a file with RDMA WRITE. `file_copy serve ADDRESS FILE` receives one file; `file_copy send ADDRESS
// FILE` sends one.
//
// The receiver shares a buffer of several blocks and sends its location. The sender writes blocks into it,
// several at a time, each with its number and length as the immediate value. The receiver writes the block to
// the file and reports that it is free again.
#include <cstdio>
#include <memory>
#include <vector>

#include "rrdma/comm/comm.h"

using namespace rrdma::comm;

namespace {

constexpr std::uint32_t kBlock = 256 << 10;
constexpr std::uint32_t kBlocks = 16;

struct Window {
  RemoteSpan<std::byte> memory;
};
struct Total {
  std::uint64_t octets;
};
// An immediate value: the block, and the number of bytes in it.
constexpr std::uint32_t pack(std::uint32_t block, std::uint32_t octets) { return block << 24 | octets; }

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
File open_file(const char* path, const char* mode) {
  File file(std::fopen(path, mode), &std::fclose);
  if (!file) throw std::runtime_error(std::string("cannot open ") + path);
  return file;
}

Task<> receive_file(Context& context, const char* address, const char* path) {
  File file = open_file(path, "wb");
  Listener listener = context.listen(address).value_or_throw();
  std::printf("listening at %s\n", std::string(listener.address()).c_str());
  std::fflush(stdout);
  Endpoint end = (co_await listener.accept()).value_or_throw();
  Buffer window = context.pool().take(std::size_t{kBlock} * kBlocks).value_or_throw();
  auto opened = share(context, window, Access::kWrite).value_or_throw();
  const Window where{opened.remote()};
  (co_await end.send(where)).value_or_throw();
  std::uint64_t octets = 0;
  for (;;) {
    Message message = (co_await end.receive()).value_or_throw();
    if (!message.immediate()) {
      if (message.as<Total>().octets != octets) throw std::runtime_error("bytes are missing");
      break;
    }
    const std::uint32_t block = *message.immediate() >> 24;
    const std::uint32_t length = *message.immediate() & 0xffffff;
    if (block >= kBlocks || length > kBlock) throw std::runtime_error("the sender is mistaken");
    if (std::fwrite(window.data() + std::size_t{block} * kBlock, 1, length, file.get()) != length)
      throw std::runtime_error("cannot write");
    octets += length;
    (co_await end.send(block)).value_or_throw();  // the block is free again
  }
  (co_await end.close()).value_or_throw();
  std::printf("%llu bytes\n", static_cast<unsigned long long>(octets));
}

Task<> write_block(Endpoint& end, RemoteSpan<std::byte> window, std::uint32_t block, Buffer buffer,
                   std::vector<Buffer>& spare) {
  const auto length = static_cast<std::uint32_t>(buffer.size());
  spare.push_back((co_await end.write(std::move(buffer), window.subspan(std::size_t{block} * kBlock, length),
                                      pack(block, length)))
                      .value_or_throw());
}

Task<> send_file(Context& context, const char* address, const char* path) {
  File file = open_file(path, "rb");
  Endpoint end = (co_await context.connect(address, std::chrono::seconds(5))).value_or_throw();
  const RemoteSpan<std::byte> window = (co_await end.receive()).value_or_throw().as<Window>().memory;
  std::vector<Buffer> spare;
  for (std::uint32_t i = 0; i < kBlocks; ++i) spare.push_back(context.pool().take(kBlock).value_or_throw());
  Scope writes;
  std::uint64_t octets = 0;
  std::uint32_t blocks = 0;
  std::uint32_t returned = 0;
  for (;; ++blocks) {
    // Blocks are returned in the order in which they were filled.
    for (; blocks - returned == kBlocks; ++returned)
      static_cast<void>((co_await end.receive()).value_or_throw());
    if (spare.empty()) co_await writes.join();
    Buffer buffer = std::move(spare.back());
    spare.pop_back();
    buffer.resize(kBlock);
    const std::size_t length = std::fread(buffer.data(), 1, kBlock, file.get());
    if (length == 0) break;
    buffer.resize(length);
    octets += length;
    writes.spawn(write_block(end, window, blocks % kBlocks, std::move(buffer), spare));
  }
  co_await writes.join();
  // Wait until every block is returned: closing earlier would fail the peer's sends.
  for (; returned < blocks; ++returned) static_cast<void>((co_await end.receive()).value_or_throw());
  const Total total{octets};
  (co_await end.send(total)).value_or_throw();
  (co_await end.close()).value_or_throw();
  std::printf("%llu bytes\n", static_cast<unsigned long long>(octets));
}

}  // namespace

int main(int count, char** words) try {
  const std::string role = count == 4 ? words[1] : "";
  if (role != "serve" && role != "send")
    return std::fprintf(stderr, "usage: file_copy serve|send ADDRESS FILE\n"), 2;
  Context context = Context::open().value_or_throw();
  context.run(role == "serve" ? receive_file(context, words[2], words[3])
                              : send_file(context, words[2], words[3]));
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
