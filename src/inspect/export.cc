#include "inspect/export.h"

#include <zlib.h>

#include <nlohmann/json.hpp>

#include "base/assert.h"
#include "inspect/capture_image.h"
#include "inspect/page.h"

namespace rrdma::tools {
namespace {

using Json = nlohmann::ordered_json;

// The placeholder for the data in the page; scripts/build.mjs of inspector/ writes this line.
constexpr std::string_view kPlace = "<!--capture-->";

std::string base64(std::string_view octets) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((octets.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < octets.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < octets.size() ? static_cast<std::uint8_t>(octets[i + k]) : 0u);
    for (unsigned k = 0; k < 4; ++k)
      text += i + k > octets.size() ? '=' : kDigits[three >> (18 - 6 * k) & 63];
  }
  return text;
}

std::string details_of(const Analysis& analysis) {
  constexpr unsigned kNotable =
      kMarkRepeat | kMarkNak | kMarkRnrNak | kMarkLost | kMarkBad | kMarkRemark | kMarkGap;
  StringTable strings;
  std::string packets;
  std::size_t count = 0;
  const auto add = [&](std::uint32_t index) {
    if (count++ != 0) packets += ',';
    packets += '"' + std::to_string(index) + "\":" + packet_details(analysis, index, strings);
  };
  const PacketColumns& columns = analysis.columns;
  const auto notable = [&](std::uint32_t i) {
    return (columns.marks[i] & kNotable) != 0 || columns.cm_message[i] != 0;
  };
  for (const bool wanted : {true, false}) {
    for (std::uint32_t i = 0; i < columns.size() && count < kExportDetailsMax; ++i) {
      if (notable(i) == wanted) add(i);
    }
  }
  return "{\"strings\":" + Json(strings.list()).dump(-1, ' ', false, Json::error_handler_t::replace) +
         ",\"packets\":{" + packets + "}}";
}

}  // namespace

std::string packed_base64(std::string_view octets) {
  uLongf room = compressBound(octets.size());
  std::string packed(room, '\0');
  const int status =
      compress2(reinterpret_cast<Bytef*>(packed.data()), &room, reinterpret_cast<const Bytef*>(octets.data()),
                octets.size(), Z_BEST_SPEED + 3);
  RRDMA_ASSERT(status == Z_OK);
  packed.resize(room);
  return base64(packed);
}

std::string exported_page(const Analysis& analysis) {
  std::string page(inspector_page());
  const std::size_t place = page.find(kPlace);
  RRDMA_ASSERT(place != std::string::npos);
  // Base64 has no character that could end the element.
  const std::string data = "<script type=\"text/plain\" id=\"capture\">" +
                           packed_base64(capture_image(analysis)) +
                           "</script>\n<script type=\"text/plain\" id=\"details\">" +
                           packed_base64(details_of(analysis)) + "</script>";
  return page.replace(place, kPlace.size(), data);
}

}  // namespace rrdma::tools
