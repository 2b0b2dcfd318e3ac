// The tables of the Wireshark plugin must be those of lib/rpc/frame_layout.h. If they differ, the test prints
// the lines to put between the two marks in the plugin.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "lib/rpc/frame_layout.h"

namespace rrdma::rpc::detail::wireshark_layout_test {

constexpr std::string_view kBegin = "-- The layout begins.\n";
constexpr std::string_view kEnd = "-- The layout ends.\n";

std::string_view word_of(Show show) {
  switch (show) {
    case Show::kHex:
    case Show::kMethod: return "hex";
    case Show::kStatus: return "status";
    case Show::kRegion: return "region";
    case Show::kText: return "text";
    case Show::kCount: return "bytes";
    case Show::kPairs: return "pairs";
    default: return "number";
  }
}
std::string_view word_of(Part part) {
  constexpr std::array<std::string_view, kParts> kWords = {"metadata", "message", "details"};
  return kWords.at(static_cast<std::size_t>(part));
}

// Writes one Lua table for each field of a layout.
class LuaTable {
 public:
  bool only(const Frame&, std::uint8_t flag) {
    flag_ = flag;
    return true;
  }
  template <typename T>
  void number(const FieldInfo& info, const T&) {
    field(info, sizeof(T));
  }
  void region(const FieldInfo& info, const Region&) { field(info, kRegionSize); }
  void zero(std::size_t size) { line("size = " + std::to_string(size)); }
  template <typename View>
  void length(Part part, const View&) {
    line("length = \"" + std::string(word_of(part)) + "\", size = 2");
  }
  template <typename View>
  void part(const FieldInfo& info, Part part, const View&) {
    flag_ = 0;
    line("part = \"" + std::string(word_of(part)) + "\", " + words_of(info));
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  static std::string words_of(const FieldInfo& info) {
    return "key = \"" + std::string(info.key) + "\", label = \"" + std::string(info.label) + "\", show = \"" +
           std::string(word_of(info.show)) + "\"";
  }
  void field(const FieldInfo& info, std::size_t size) {
    line("size = " + std::to_string(size) + ", " + words_of(info));
  }
  // The fields after only() belong to its flag, until the next part.
  void line(const std::string& words) {
    text_ += "    {" + words + (flag_ != 0 ? ", flag = " + std::to_string(flag_) : "") + "},\n";
  }
  std::string text_;
  unsigned flag_ = 0;
};

std::string lua_of_layouts() {
  std::string kinds, flags, layouts, words;
  for (const KindInfo& info : kKinds) {
    kinds += (kinds.empty() ? "\"" : ", \"") + std::string(info.name) + "\"";
    flags += (flags.empty() ? "" : ", ") + std::to_string(info.flags);
    LuaTable table;
    Frame frame;
    frame.kind = info.kind;
    layout_rest(table, std::as_const(frame));
    if (!table.text().empty())
      layouts += "  [" + std::to_string(static_cast<int>(info.kind)) + "] = {\n" + table.text() + "  },\n";
  }
  for (const FlagInfo& info : kFlags)
    words +=
        (words.empty() ? "{" : ", {") + std::to_string(info.flag) + ", \"" + std::string(info.word) + "\"}";
  return "local KINDS = {" + kinds + "}\nlocal FLAG_WORDS = {" + words +
         "}\n-- The valid flags of each kind.\n" + "local FLAGS = {" + flags +
         "}\n-- The fields between head and body.\nlocal LAYOUTS = {\n" + layouts + "}\n";
}

TEST(WiresharkPlugin, HasTheLayoutOfTheFrames) {
  std::ifstream file(RRDMA_RPC_PLUGIN);
  std::stringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  const std::size_t begin = text.find(kBegin);
  const std::size_t end = text.find(kEnd);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos && begin < end)
      << "the marks are missing";
  const std::string expected = lua_of_layouts();
  EXPECT_EQ(text.substr(begin + kBegin.size(), end - begin - kBegin.size()), expected)
      << "put this between the marks in " << RRDMA_RPC_PLUGIN << ":\n"
      << expected;
}

}  // namespace rrdma::rpc::detail::wireshark_layout_test
