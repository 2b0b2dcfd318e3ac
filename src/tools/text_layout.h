// Text layout for terminals: display width (Chinese characters take two columns), wrapped paragraphs, tables
// with aligned columns, and short forms of large numbers. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rrdma::tools {

// The number of columns of UTF-8 text on a terminal.
[[nodiscard]] std::size_t display_width(std::string_view text);

// Wraps a paragraph to lines of at most `width` columns, if its words permit. Chinese text may break anywhere
// except before punctuation. The first line starts with `first`, the others with `rest`.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t width, std::string_view first,
                                  std::string_view rest);

// The part of the text that fits into `width` columns. Cut text ends with "…".
[[nodiscard]] std::string clipped(std::string_view text, std::size_t width);

// 1234567 as "1.23M": at most five columns up to 999T.
[[nodiscard]] std::string short_number(double value);

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  static constexpr std::uint8_t kAlways = 255;

  std::string heading;
  Align align = Align::kLeft;
  std::uint8_t keep = kAlways;  // if the table is too wide, columns with the lowest number are dropped first
  std::size_t shrinks_to = 0;   // before that, text is cut to no less than this width; 0: never cut
};

// The colour before and after a cell takes no columns.
struct Cell {
  Cell(std::string shown) : text(std::move(shown)) {}
  Cell(const char* shown) : text(shown) {}
  Cell(std::string shown, std::string_view paint) : text(std::move(shown)), colour(paint) {}

  std::string text;
  std::string_view colour{};
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // REQUIRES: as many cells as columns.
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // Heading and rows; each line ends with a newline. Two blanks separate columns; no line has trailing
  // blanks. At most `width` columns wide, if the columns permit.
  [[nodiscard]] std::string text(std::string_view heading_colour, std::string_view reset,
                                 std::size_t width = kUnlimited) const;

 private:
  static constexpr std::size_t kUnlimited = SIZE_MAX;
  // The width of each column; 0 if it is dropped.
  [[nodiscard]] std::vector<std::size_t> widths_within(std::size_t width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace rrdma::tools
