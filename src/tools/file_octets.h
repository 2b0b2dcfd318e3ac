// FileOctets: the contents of a file or of standard input in memory. Regular files are mapped, so that a
// capture of many gigabytes costs no memory. Pipes are read to their end.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/octets.h"
#include "base/result.h"

namespace rrdma::tools {

class FileOctets {
 public:
  // "-" is standard input. The error is a sentence without the file's name: "no such file or directory".
  [[nodiscard]] static Result<FileOctets, std::string> read(const std::string& path);

  FileOctets(FileOctets&& other) noexcept;
  FileOctets& operator=(FileOctets&&) = delete;
  ~FileOctets();

  [[nodiscard]] Octets octets() const { return mapped_.empty() ? Octets(copied_) : mapped_; }

 private:
  FileOctets() = default;
  [[nodiscard]] static Result<FileOctets, std::string> read_descriptor(int descriptor);

  Octets mapped_;
  std::vector<std::uint8_t> copied_;
};

}  // namespace rrdma::tools
