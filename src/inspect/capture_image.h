// The encoding of an analysis for the page: a JSON header, followed by the columns of the packets as
// little-endian arrays that a browser can use without parsing.
//
//   image = "RRDMA-1\n", u32 length of the header, header, zeros up to a multiple of 8, columns
//
// The header lists each column with its type, offset (from the first column) and count.
#pragma once

#include <string>

#include "inspect/analysis.h"

namespace rrdma::tools {

[[nodiscard]] std::string capture_image(const Analysis& analysis);

// All fields of one packet as JSON: {"fields": [[label, text, meaning, key, children]…], …}. Label, meaning
// and key are indices into the strings. REQUIRES: index < analysis.columns.size().
class StringTable;
[[nodiscard]] std::string packet_details(const Analysis& analysis, std::uint32_t index, StringTable& strings);

// Deduplicates labels and meanings, which are few and repeat often.
class StringTable {
 public:
  [[nodiscard]] std::uint32_t number_of(std::string_view text);
  [[nodiscard]] const std::vector<std::string>& list() const { return list_; }

 private:
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::vector<std::string> list_;
};

}  // namespace rrdma::tools
