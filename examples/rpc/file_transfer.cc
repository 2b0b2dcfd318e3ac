// Transfers files as Bulk: the data moves from the sender's pool to the receiver's without copies.
// `file_transfer serve ADDRESS FOLDER [CLIENTS]`; `file_transfer put ADDRESS FILE NAME`, `file_transfer get
// ADDRESS NAME FILE`. A file is sent in pieces, several at a time and in any order.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "rrdma/rpc/rpc.h"

using namespace rrdma;

namespace {

constexpr std::size_t kPiece = 4 << 20;
constexpr auto kPatience = std::chrono::seconds(10);
using Octets = rpc::Bulk<std::byte>;

struct Piece {
  std::array<char, 240> name;
  std::uint64_t offset;
  std::uint64_t length;
};

Piece piece_of(std::string_view name, std::uint64_t offset, std::uint64_t length) {
  Piece piece{{}, offset, length};
  if (name.size() >= piece.name.size()) throw std::runtime_error("this name is too long");
  std::memcpy(piece.name.data(), name.data(), name.size());
  return piece;
}

rpc::Status failure(const std::string& what) {
  const auto code = errno == ENOENT ? rpc::Code::kNotFound : rpc::Code::kInternal;
  return {code, what + ": " + std::strerror(errno)};
}

class File {
 public:
  File(const std::string& path, int flags) : number_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  explicit operator bool() const { return number_ >= 0; }
  [[nodiscard]] std::uint64_t size() const {
    struct stat about {};
    return ::fstat(number_, &about) == 0 ? static_cast<std::uint64_t>(about.st_size) : 0;
  }
  // Moves all of it, or fails. `pread` and `pwrite` differ only in one const.
  template <typename Move>
  bool move(Move step, std::byte* octets, std::size_t size, std::uint64_t offset) const {
    while (size != 0) {
      const ssize_t moved = step(number_, octets, size, static_cast<off_t>(offset));
      if (moved <= 0) return false;
      octets += moved;
      size -= static_cast<std::size_t>(moved);
      offset += static_cast<std::uint64_t>(moved);
    }
    return true;
  }
  bool read(std::span<std::byte> into, std::uint64_t offset) const {
    return move(::pread, into.data(), into.size(), offset);
  }
  bool write(std::span<std::byte> from, std::uint64_t offset) const {
    return move(::pwrite, from.data(), from.size(), offset);
  }

 private:
  int number_;
};

// ---- the service ----

class Files {
 public:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}

  rpc::Result<std::uint64_t> size(const std::string& name) {
    const File file(path_of(name), O_RDONLY);
    if (!file) return failure(name);
    return file.size();
  }
  rpc::Result<Octets> read(rpc::Call& call, const Piece& piece) {
    const std::string name = name_of(piece);
    const File file(path_of(name), O_RDONLY);
    if (!file) return failure(name);
    if (piece.length > kPiece) return rpc::Status(rpc::Code::kOutOfRange, "a piece is smaller than that");
    auto octets = Octets::of(call.context(), piece.length);
    if (!octets) return octets.error();
    if (!file.read(octets->items(), piece.offset)) return failure(name);
    return std::move(*octets);
  }
  // The argument is the piece; the metadata contain its name and offset.
  rpc::Result<rpc::Empty> write(rpc::Call& call, Octets octets) {
    const std::string name(call.metadata().find("name").value_or(""));
    const std::string offset(call.metadata().find("offset").value_or("0"));
    const File file(path_of(name), O_WRONLY | O_CREAT);
    if (!file || !file.write(octets.items(), std::stoull(offset))) return failure(name);
    return rpc::Empty{};
  }

 private:
  static std::string name_of(const Piece& piece) {
    return {piece.name.data(), ::strnlen(piece.name.data(), piece.name.size())};
  }
  // Only files of this folder.
  [[nodiscard]] std::string path_of(const std::string& name) const {
    if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos)
      throw rpc::Failure(
          rpc::Status(rpc::Code::kPermissionDenied, "'" + name + "' is no name of a file here"));
    return folder_ + "/" + name;
  }
  std::string folder_;
};

comm::Task<> serve(comm::Context& context, const char* address, const char* folder, unsigned long clients) {
  Files files(folder);
  rpc::Server server(context);
  server.add<&Files::size>(files);
  server.add<&Files::read>(files);
  server.add<&Files::write>(files);
  const rpc::Status listening = server.listen(address);
  if (!listening.ok()) throw rpc::Failure(listening);
  std::printf("listening at %s\n", std::string(server.address()).c_str());
  std::fflush(stdout);
  // Serve until that many clients have come and gone; 0: forever.
  while (clients == 0 || server.counters().connections < clients || server.connections() != 0)
    static_cast<void>(co_await context.sleep(std::chrono::milliseconds(20)));
}

// ---- the client ----

// The rest of the file, shared by several tasks.
struct Rest {
  std::uint64_t next;
  std::uint64_t end;
};

comm::Task<> send_pieces(comm::Context& context, rpc::Channel& on, const File& file, std::string name,
                         Rest& rest) {
  while (rest.next < rest.end) {
    const std::uint64_t offset = std::exchange(rest.next, std::min(rest.next + kPiece, rest.end));
    Octets octets = Octets::of(context, std::min<std::uint64_t>(kPiece, rest.end - offset)).value_or_throw();
    if (!file.read(octets.items(), offset)) throw rpc::Failure(failure("read"));
    auto put = co_await on.call<&Files::write>(
        std::move(octets),
        rpc::CallOptions(kPatience).with("name", name).with("offset", std::to_string(offset)));
    static_cast<void>(std::move(put).value_or_throw());
  }
}

comm::Task<> fetch_pieces(rpc::Channel& on, const File& file, std::string name, Rest& rest) {
  while (rest.next < rest.end) {
    const std::uint64_t offset = std::exchange(rest.next, std::min(rest.next + kPiece, rest.end));
    const std::uint64_t length = std::min<std::uint64_t>(kPiece, rest.end - offset);
    // The server writes the piece into the lent memory.
    auto got = co_await on.call<&Files::read>(piece_of(name, offset, length),
                                              rpc::CallOptions(kPatience).lending(length));
    Octets octets = std::move(got).value_or_throw();
    if (!file.write(octets.items(), offset)) throw rpc::Failure(failure("write"));
  }
}

comm::Task<> transfer(comm::Context& context, bool puts, const char* address, const char* from,
                      const char* to) {
  auto connected = co_await rpc::connect(context, address, {}, std::chrono::seconds(5));
  rpc::Channel channel = std::move(connected).value_or_throw();
  const File file(puts ? from : to, puts ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC);
  if (!file) throw rpc::Failure(failure(puts ? from : to));
  Rest rest{0, file.size()};
  if (!puts) {
    auto size = co_await channel.call<&Files::size>(from, kPatience);
    rest.end = std::move(size).value_or_throw();
  }
  const auto begin = comm::Clock::now();
  if (puts) {
    co_await comm::when_all(send_pieces(context, channel, file, to, rest),
                            send_pieces(context, channel, file, to, rest),
                            send_pieces(context, channel, file, to, rest));
  } else {
    co_await comm::when_all(fetch_pieces(channel, file, from, rest), fetch_pieces(channel, file, from, rest),
                            fetch_pieces(channel, file, from, rest));
  }
  const std::chrono::duration<double> took = comm::Clock::now() - begin;
  std::printf("%llu bytes, %.0f MB/s\n", static_cast<unsigned long long>(rest.end),
              static_cast<double>(rest.end) / 1e6 / took.count());
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view role = count > 1 ? words[1] : "";
  if (!(role == "serve" && (count == 4 || count == 5)) && !((role == "put" || role == "get") && count == 5)) {
    std::fprintf(stderr,
                 "usage: file_transfer serve ADDRESS FOLDER [CLIENTS] | put ADDRESS FILE NAME | get ADDRESS "
                 "NAME FILE\n");
    return 2;
  }
  comm::Context context = comm::Context::open().value_or_throw();
  context.run(role == "serve" ? serve(context, words[2], words[3], count > 4 ? std::stoul(words[4]) : 0)
                              : transfer(context, role == "put", words[2], words[3], words[4]));
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
