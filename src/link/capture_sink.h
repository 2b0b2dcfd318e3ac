// CaptureSink: the destination of a capture. CaptureFile: one file, or several in turn. Without limits,
// several writers in one or many processes may append to the same file. Each write holds whole pcapng blocks,
// the first one a whole section head. Every section has the same single interface, so a reader always finds
// the context of a block. Blocks are buffered and written together.
//
// Files with a size limit belong to one writer: FILE, FILE.1, FILE.2, …, each with a section head. A second
// program that finds FILE taken writes FILE.PID, FILE.PID.1, … instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/octets.h"
#include "base/owned_fd.h"
#include "base/result.h"
#include "link/capture_limits.h"

namespace rrdma::link {

class CaptureSink {
 public:
  virtual ~CaptureSink() = default;
  // Appends one whole block, which is valid during the call only.
  virtual void append(Octets block) = 0;
  virtual void write_out() = 0;
  // Number of packets lost since the last call, because the disk was full or the reader did not keep up.
  [[nodiscard]] virtual std::uint64_t take_lost() = 0;
};

// The kind of a pcapng block that PcapngWriter made.
enum class BlockKind : std::uint8_t { kSection, kInterface, kPacket, kStatistics, kOther };
[[nodiscard]] BlockKind kind_of(Octets block);

// Empties a capture of an earlier run. Leaves it alone if a CaptureFile of any process writes it now, and if
// it is not a regular file. Returns 0 or errno.
[[nodiscard]] int empty_capture_file(const std::string& path);

class CaptureFile final : public CaptureSink {
 public:
  static constexpr std::uint64_t kOctetsMax = std::uint64_t{4} << 30;  // unless a limit is given

  // Creates the file or appends to it. The error is an errno.
  [[nodiscard]] static Result<std::unique_ptr<CaptureFile>, int> open(const std::string& path,
                                                                      const CaptureLimits& limits = {},
                                                                      std::uint64_t octets_max = kOctetsMax);
  // Takes over a file that is already open for appending. There is no second file.
  [[nodiscard]] static std::unique_ptr<CaptureFile> adopt(OwnedFd file, const CaptureLimits& limits = {});
  ~CaptureFile() override { write_out(); }

  void append(Octets block) override;
  void write_out() override;
  [[nodiscard]] std::uint64_t take_lost() override { return lost_ - std::exchange(lost_told_, lost_); }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  // The packet limit is reached: nothing more is written.
  [[nodiscard]] bool complete() const { return limits_.packets_max != 0 && packets_ >= limits_.packets_max; }
  [[nodiscard]] std::uint64_t packets() const { return packets_; }
  [[nodiscard]] std::uint64_t octets() const { return octets_sum_; }
  // Number of files begun.
  [[nodiscard]] std::uint32_t files() const { return files_; }

 private:
  static constexpr std::size_t kBufferOctets = 256 * 1024;

  CaptureFile(OwnedFd file, std::string path, const CaptureLimits& limits, std::uint64_t octets_max);
  void put(Octets block);
  bool begin_next_file();

  OwnedFd file_;
  std::string path_;  // of the first file; empty: adopted
  const CaptureLimits limits_;
  const std::uint64_t octets_max_;
  std::uint64_t octets_ = 0;      // of the current file
  std::uint64_t octets_sum_ = 0;  // of all
  std::uint64_t packets_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t lost_told_ = 0;
  std::uint64_t buffered_packets_ = 0;
  std::uint32_t files_ = 1;
  std::vector<std::uint8_t> head_;  // section head: the beginning of every new file
  std::vector<std::uint8_t> buffer_;
};

}  // namespace rrdma::link
