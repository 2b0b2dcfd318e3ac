#include "tools/text_layout.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/format.h"

namespace rrdma::tools {
namespace {

constexpr std::string_view kGap = "  ";

// The code point at the start of `text`, and its length in bytes. Invalid UTF-8 counts byte by byte.
struct CodePoint {
  char32_t value;
  std::size_t octets;
};

CodePoint first_of(std::string_view text) {
  const auto octet = static_cast<unsigned char>(text.front());
  const std::size_t length = octet < 0x80 ? 1 : octet >= 0xf0 ? 4 : octet >= 0xe0 ? 3 : octet >= 0xc0 ? 2 : 1;
  if (length == 1 || length > text.size()) return {octet, 1};
  char32_t value = octet & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  return {value, length};
}

// East Asian wide characters, as far as Chinese text uses them.
bool is_wide(char32_t c) {
  return (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
         (c >= 0xffe0 && c <= 0xffe6);
}

bool is_closing_punctuation(char32_t c) {
  constexpr std::array kMarks = {U'，', U'。', U'、', U'；', U'：', U'！', U'？', U'）', U'」', U'”', U'》'};
  return std::find(kMarks.begin(), kMarks.end(), c) != kMarks.end();
}

bool is_opening_punctuation(char32_t c) { return c == U'（' || c == U'「' || c == U'“' || c == U'《'; }

// A unit without a line break: a word, or one wide character, with its punctuation.
struct Piece {
  std::string_view text;
  std::size_t width = 0;
  bool after_blank = false;
};

std::vector<Piece> pieces_of(std::string_view text) {
  std::vector<Piece> pieces;
  bool blank = false;
  bool joins = false;
  bool opened = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_of(text.substr(at));
    if (point.value == U' ') {
      blank = true;
      joins = opened = false;
    } else {
      const bool wide = is_wide(point.value);
      const bool closes = is_closing_punctuation(point.value);
      if (pieces.empty() || blank || (!closes && !opened && (wide || !joins))) {
        pieces.push_back({text.substr(at, 0), 0, blank});
      }
      Piece& piece = pieces.back();
      piece.text = std::string_view(
          piece.text.data(), static_cast<std::size_t>(text.data() + at - piece.text.data()) + point.octets);
      piece.width += wide ? 2 : 1;
      joins = !wide;
      opened = is_opening_punctuation(point.value);
      blank = false;
    }
    at += point.octets;
  }
  return pieces;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const CodePoint point = first_of(text);
    width += is_wide(point.value) ? 2 : 1;
    text.remove_prefix(point.octets);
  }
  return width;
}

std::string wrapped(std::string_view text, std::size_t width, std::string_view first, std::string_view rest) {
  std::string result(first);
  std::size_t used = display_width(first);
  bool line_is_empty = true;
  for (const Piece& piece : pieces_of(text)) {
    const std::size_t blank = piece.after_blank && !line_is_empty ? 1 : 0;
    if (!line_is_empty && used + blank + piece.width > width) {
      result += '\n';
      result += rest;
      used = display_width(rest);
    } else if (blank != 0) {
      result += ' ';
      ++used;
    }
    result += piece.text;
    used += piece.width;
    line_is_empty = false;
  }
  result += '\n';
  return result;
}

std::string clipped(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  std::string result;
  std::size_t used = 0;
  while (!text.empty()) {
    const CodePoint point = first_of(text);
    const std::size_t columns = is_wide(point.value) ? 2 : 1;
    if (used + columns + 1 > width) break;
    result += text.substr(0, point.octets);
    used += columns;
    text.remove_prefix(point.octets);
  }
  return width == 0 ? std::string() : result + "…";
}

std::string short_number(double value) {
  constexpr std::string_view kSuffixes = " kMGTPE";
  std::size_t power = 0;
  while (value >= 999.5 && power + 1 < kSuffixes.size()) {
    value /= 1000;
    ++power;
  }
  if (power == 0)
    return std::abs(value - std::round(value)) < 0.05 || value >= 99.95 ? formatted("{:.0f}", value)
                                                                        : formatted("{:.1f}", value);
  return formatted("{:.{}f}{}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kSuffixes[power]);
}

std::vector<std::size_t> Table::widths_within(std::size_t width) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.heading));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < widths.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i].text));
  }
  const auto excess = [&] {
    std::size_t sum = 0;
    for (const std::size_t one : widths) sum += one == 0 ? 0 : one + kGap.size();
    sum -= std::min(sum, kGap.size());
    return sum - std::min(sum, width);
  };
  const auto shrink = [&] {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (columns_[i].shrinks_to == 0 || widths[i] <= columns_[i].shrinks_to) continue;
      widths[i] -= std::min(excess(), widths[i] - columns_[i].shrinks_to);
    }
  };
  const std::vector<std::size_t> wanted = widths;
  for (shrink(); excess() != 0; shrink()) {
    std::size_t least = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const bool may_go = widths[i] != 0 && columns_[i].keep != Column::kAlways;
      if (may_go && (least == widths.size() || columns_[i].keep < columns_[least].keep)) least = i;
    }
    if (least == widths.size()) break;
    widths[least] = 0;
    // Use the freed room first for columns that were shrunk.
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (columns_[i].shrinks_to != 0 && widths[i] != 0) widths[i] = wanted[i];
    }
  }
  return widths;
}

std::string Table::text(std::string_view heading_colour, std::string_view reset, std::size_t width) const {
  const std::vector<std::size_t> widths = widths_within(width);
  std::string result;
  const auto add_line = [&](auto&& cell_of) {
    std::size_t owed = 0;  // padding, written only before further text
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (widths[i] == 0) continue;
      const Cell cell = cell_of(i);
      const std::string shown = clipped(cell.text, widths[i]);
      const std::size_t pad = widths[i] - display_width(shown);
      const bool right = columns_[i].align == Align::kRight;
      if (right) owed += pad;
      if (!shown.empty()) {
        result.append(owed, ' ');
        owed = 0;
        result += cell.colour;
        result += shown;
        if (!cell.colour.empty()) result += reset;
      }
      owed += (right ? 0 : pad) + kGap.size();
    }
    result += '\n';
  };
  add_line([&](std::size_t i) { return Cell(columns_[i].heading, heading_colour); });
  for (const auto& row : rows_) add_line([&](std::size_t i) { return row[i]; });
  return result;
}

}  // namespace rrdma::tools
