// Text that fits a terminal: how many columns it takes (Chinese characters take two), paragraphs wrapped
// to a width, tables with aligned columns, and large numbers in few digits. Pure functions of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rrdma::tools {

// Columns that UTF-8 text takes on a terminal.
[[nodiscard]] std::size_t display_width(std::string_view text);

// The lines of a paragraph, none wider than `width` where the words allow it; between Chinese characters
// a line may end anywhere but before a punctuation mark. The first line follows `first`, the others `rest`.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t width, std::string_view first,
                                  std::string_view rest);

// As much of the text as fits into `width` columns; cut text ends with "…".
[[nodiscard]] std::string clipped(std::string_view text, std::size_t width);

// 1234567 as "1.23M": at most five columns up to 999T.
[[nodiscard]] std::string short_number(double value);

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  static constexpr std::uint8_t kAlways = 255;

  std::string heading;
  Align align = Align::kLeft;
  std::uint8_t keep = kAlways;  // where the table is too wide, columns with the lowest number are left out
  std::size_t shrinks_to = 0;   // before that, its text is cut, down to so many columns; 0: never
};

// What is written before a cell and after it (a colour) takes no room.
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
  // Heading and rows, each line ended; two blanks between columns, nothing at the end of a line. No wider than
  // `width` where the columns allow it.
  [[nodiscard]] std::string text(std::string_view heading_colour, std::string_view reset,
                                 std::size_t width = kUnlimited) const;

 private:
  static constexpr std::size_t kUnlimited = SIZE_MAX;
  // Of each column; 0: it is left out.
  [[nodiscard]] std::vector<std::size_t> widths_within(std::size_t width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace rrdma::tools
