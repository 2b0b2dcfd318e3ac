#include "tools/stat/sparkline.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace rrdma::tools {
namespace {

constexpr std::array<std::string_view, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

void push(std::deque<double>& values, double value) {
  values.push_back(value);
  if (values.size() > RateHistory::kValuesMax) values.pop_front();
}

const control::QpSnapshot* find(const Observation& observation, const RateHistory::Key& key) {
  for (const ObservedProcess& process : observation.processes) {
    if (process.entry.pid != key.first) continue;
    for (const control::QpSnapshot& qp : process.queue_pairs)
      if (qp.fields.qpn == key.second) return &qp;
  }
  return nullptr;
}

}  // namespace

std::string sparkline(const std::deque<double>& values, std::size_t width) {
  const std::size_t first = values.size() > width ? values.size() - width : 0;
  const double most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  std::string text;
  for (std::size_t i = first; i < values.size(); ++i) {
    const double share = most > 0 ? values[i] / most : 0;
    text += kBars[std::min(kBars.size() - 1,
                           static_cast<std::size_t>(share * static_cast<double>(kBars.size())))];
  }
  return text;
}

void RateHistory::add(const Observation& now, const Observation& before) {
  const double seconds = std::chrono::duration<double>(now.at - before.at).count();
  if (seconds <= 0) return;
  std::map<Key, Rates> kept;
  for (const ObservedProcess& process : now.processes) {
    for (const control::QpSnapshot& qp : process.queue_pairs) {
      const Key key{process.entry.pid, qp.fields.qpn};
      const control::QpSnapshot* earlier = find(before, key);
      if (earlier == nullptr) continue;
      Rates& rates = kept[key] = std::move(rates_[key]);
      const auto rate = [&](control::QpCounter which) {
        const std::uint64_t then = value_of(*earlier, which), since = value_of(qp, which);
        return since < then ? 0.0 : static_cast<double>(since - then) / seconds;
      };
      push(rates.sent_octets, rate(control::QpCounter::kSentOctets));
      push(rates.received_octets, rate(control::QpCounter::kReceivedOctets));
      push(rates.resent, rate(control::QpCounter::kRetransmittedPackets));
    }
  }
  rates_ = std::move(kept);
}

const RateHistory::Rates* RateHistory::of(const Key& key) const {
  const auto found = rates_.find(key);
  return found == rates_.end() ? nullptr : &found->second;
}

}  // namespace rrdma::tools
