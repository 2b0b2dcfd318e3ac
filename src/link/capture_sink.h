// CaptureSink: where a capture goes. CaptureFile: into a file. Several writers, in one process or in many,
// may append to one file at a time: each write holds whole pcapng blocks, the first one a whole section
// head, and every section has the same one interface, so that a reader finds what it needs whoever wrote
// last. Blocks are collected and written together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/octets.h"
#include "base/owned_fd.h"
#include "base/result.h"

namespace rrdma::link {

class CaptureSink {
 public:
  virtual ~CaptureSink() = default;
  // One whole block; good during the call only.
  virtual void append(Octets block) = 0;
  virtual void write_out() = 0;
};

class CaptureFile final : public CaptureSink {
 public:
  static constexpr std::uint64_t kOctetsMax = std::uint64_t{4} << 30;

  // Creates the file or goes on behind its end. The error is an errno.
  [[nodiscard]] static Result<std::unique_ptr<CaptureFile>, int> open(const char* path,
                                                                      std::uint64_t octets_max = kOctetsMax);
  // A file that somebody else has opened, for appending.
  [[nodiscard]] static std::unique_ptr<CaptureFile> adopt(OwnedFd file,
                                                          std::uint64_t octets_max = kOctetsMax);
  ~CaptureFile() override { write_out(); }

  void append(Octets block) override;
  void write_out() override;
  // Blocks that are not in the file: beyond its bound, or the disk was full.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  static constexpr std::size_t kBufferOctets = 256 * 1024;

  CaptureFile(OwnedFd file, std::uint64_t octets_max);

  OwnedFd file_;
  const std::uint64_t octets_max_;
  std::uint64_t octets_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t buffered_blocks_ = 0;
  std::vector<std::uint8_t> buffer_;
};

}  // namespace rrdma::link
