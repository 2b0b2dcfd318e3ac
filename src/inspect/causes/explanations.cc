#include "inspect/causes/explanations.h"

#include <charconv>

#include "wire/pcapng_format.h"

namespace rrdma::tools {
namespace {

constexpr std::string_view kExplain = "explain: ";
constexpr std::size_t kTextMax = 2000;

// "QP 0x000011", which is removed from the text.
std::optional<std::uint32_t> take_qpn(std::string_view& text) {
  if (!text.starts_with(wire::kOwnerComment)) return std::nullopt;
  text.remove_prefix(wire::kOwnerComment.size());
  std::uint32_t qpn = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), qpn, 16);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return qpn;
}

}  // namespace

std::optional<std::pair<std::uint32_t, std::string>> owner_in(std::string_view comment) {
  constexpr std::string_view kBelongs = " belongs to ";
  const auto qpn = take_qpn(comment);
  if (!qpn || !comment.starts_with(kBelongs)) return std::nullopt;
  return std::pair(*qpn, std::string(comment.substr(kBelongs.size(), 100)));
}

std::optional<CaptureExplanation> explanation_in(const wire::CaptureNote& note) {
  std::string_view text = note.text;
  if (!text.starts_with(kExplain)) return std::nullopt;
  text.remove_prefix(kExplain.size());
  const auto qpn = take_qpn(text);
  if (!qpn || !text.starts_with(": ")) return std::nullopt;
  text = text.substr(2, kTextMax);
  return CaptureExplanation{.time_ns = static_cast<std::int64_t>(note.time_ns),
                            .qpn = *qpn,
                            .text = std::string(text),
                            .facts = host::facts_from(note.facts)};
}

}  // namespace rrdma::tools
