#include "tools/stat/columns.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "wire/address_text.h"

namespace rrdma::tools {
namespace {

using control::QpCounter;

constexpr std::array<std::string_view, kOrderCount> kOrderNames = {"bytes", "messages", "resent", "rnr",
                                                                   "pid"};
constexpr std::size_t kProgramMin = 8;
constexpr std::size_t kPeerMin = 24;  // an IPv4 address with its queue pair

double per_second(double before, double now, double seconds) {
  return now < before || seconds <= 0 ? 0 : (now - before) / seconds;
}

Activity rate_between(const Activity& before, const Activity& now, double seconds) {
  return {per_second(before.sent, now.sent, seconds), per_second(before.received, now.received, seconds),
          per_second(before.sent_octets, now.sent_octets, seconds),
          per_second(before.received_octets, now.received_octets, seconds)};
}

Activity activity_of(const ObservedProcess& process) {
  const auto value = [&](std::string_view name) { return static_cast<double>(process.counter(name)); };
  return {value("messages_sent"), value("messages_received"), value("octets_sent"), value("octets_received")};
}

Activity activity_of(const control::QpSnapshot& qp) {
  const auto value = [&](QpCounter which) { return static_cast<double>(value_of(qp, which)); };
  return {value(QpCounter::kSentMessages), value(QpCounter::kReceivedMessages), value(QpCounter::kSentOctets),
          value(QpCounter::kReceivedOctets)};
}

// The earlier observation and its age.
class Earlier {
 public:
  Earlier(const Observation& now, const Observation* before) : before_(before) {
    if (before != nullptr) seconds_ = std::chrono::duration<double>(now.at - before->at).count();
  }
  [[nodiscard]] std::optional<Activity> rate(const ObservedProcess& process) const {
    const ObservedProcess* earlier = find(process);
    if (earlier == nullptr) return std::nullopt;
    return rate_between(activity_of(*earlier), activity_of(process), seconds_);
  }
  [[nodiscard]] std::optional<Activity> rate(const ObservedProcess& process,
                                             const control::QpSnapshot& qp) const {
    const ObservedProcess* earlier = find(process);
    if (earlier == nullptr) return std::nullopt;
    for (const control::QpSnapshot& other : earlier->queue_pairs) {
      if (other.fields.qpn == qp.fields.qpn)
        return rate_between(activity_of(other), activity_of(qp), seconds_);
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] const ObservedProcess* find(const ObservedProcess& process) const {
    if (before_ == nullptr) return nullptr;
    for (const ObservedProcess& other : before_->processes) {
      if (other.entry.token == process.entry.token) return &other;
    }
    return nullptr;
  }

  const Observation* before_;
  double seconds_ = 0;
};

// ---- the columns ----

struct Look {
  const TableForm& form;
  const wire::Palette& palette;

  [[nodiscard]] std::string number(const Sample& sample, double Activity::*field) const {
    if (!form.rates) return short_number(sample.total.*field);
    return sample.rate ? short_number((*sample.rate).*field) : "-";
  }
};

struct ColumnRule {
  std::string_view heading;
  Align align = Align::kLeft;
  std::uint8_t keep = Column::kAlways;  // the lowest are dropped first
  std::size_t shrinks_to = 0;
  bool per_second = false;  // append "/s" if rates are shown
  std::optional<Order> order;
  Cell (*cell)(const Sample&, const Look&) = nullptr;
};

Cell alarming(std::uint64_t value, std::string_view colour) {
  return value == 0 ? Cell("0") : Cell(short_number(static_cast<double>(value)), colour);
}

const ColumnRule kPid = {
    .heading = "PID", .align = Align::kRight, .order = Order::kPid, .cell = [](const Sample& s, const Look&) {
      return Cell(std::to_string(s.process->entry.pid));
    }};
const ColumnRule kSent = {
    .heading = "TX",
    .align = Align::kRight,
    .keep = 3,
    .per_second = true,
    .order = Order::kMessages,
    .cell = [](const Sample& s, const Look& look) { return Cell(look.number(s, &Activity::sent)); }};
const ColumnRule kReceived = {
    .heading = "RX",
    .align = Align::kRight,
    .keep = 2,
    .per_second = true,
    .order = Order::kMessages,
    .cell = [](const Sample& s, const Look& look) { return Cell(look.number(s, &Activity::received)); }};
const ColumnRule kSentOctets = {
    .heading = "TX B",
    .align = Align::kRight,
    .keep = 7,
    .per_second = true,
    .order = Order::kOctets,
    .cell = [](const Sample& s, const Look& look) { return Cell(look.number(s, &Activity::sent_octets)); }};
const ColumnRule kReceivedOctets = {.heading = "RX B",
                                    .align = Align::kRight,
                                    .keep = 6,
                                    .per_second = true,
                                    .order = Order::kOctets,
                                    .cell = [](const Sample& s, const Look& look) {
                                      return Cell(look.number(s, &Activity::received_octets));
                                    }};
const ColumnRule kResent = {
    .heading = "RESENT",
    .align = Align::kRight,
    .keep = 5,
    .order = Order::kResent,
    .cell = [](const Sample& s, const Look& look) { return alarming(s.resent, look.palette.alert); }};
const ColumnRule kRnr = {
    .heading = "RNR",
    .align = Align::kRight,
    .keep = 4,
    .order = Order::kRnr,
    .cell = [](const Sample& s, const Look& look) { return alarming(s.rnr, look.palette.alert); }};

// State of the loss recovery. Empty if the link cannot lose packets.
Cell of_recovery(const Sample& sample, QpCounter which) {
  if (sample.qp->levels.round_trip_ns == 0) return Cell("-");
  return Cell(short_number(static_cast<double>(value_of(*sample.qp, which))));
}

const ColumnRule kProcessColumns[] = {
    kPid,
    {.heading = "PROGRAM",
     .shrinks_to = kProgramMin,
     .cell = [](const Sample& s, const Look&) { return Cell(s.process->entry.program); }},
    {.heading = "QPS",
     .align = Align::kRight,
     .keep = 1,
     .cell = [](const Sample& s,
                const Look&) { return Cell(std::to_string(s.process->queue_pairs.size())); }},
    kSent,
    kReceived,
    kSentOctets,
    kReceivedOctets,
    kResent,
    kRnr,
    {.heading = "ERR", .align = Align::kRight, .keep = 8, .cell = [](const Sample& s, const Look& look) {
       return alarming(s.errors, look.palette.bad);
     }}};

const ColumnRule kQueuePairColumns[] = {
    kPid,
    {.heading = "QPN",
     .cell = [](const Sample& s, const Look&) { return Cell(formatted("{:#08x}", s.qp->fields.qpn)); }},
    {.heading = "TYPE",
     .keep = 1,
     .cell = [](const Sample& s, const Look&) { return Cell(std::string(qp_type_name(s.qp->fields.type))); }},
    {.heading = "STATE",
     .cell =
         [](const Sample& s, const Look& look) {
           const std::string_view state = qp_state_name(s.qp->fields.state);
           return Cell(std::string(state), state == "RTS"   ? look.palette.good
                                           : state == "ERR" ? look.palette.bad
                                                            : std::string_view());
         }},
    {.heading = "LINK",
     .keep = 8,
     .cell = [](const Sample& s, const Look&) { return Cell(std::string(qp_link_name(s.qp->fields.link))); }},
    {.heading = "PEER",
     .shrinks_to = kPeerMin,
     .cell = [](const Sample& s, const Look&) { return Cell(peer_text(s.qp->fields)); }},
    kSent,
    kReceived,
    kSentOctets,
    kReceivedOctets,
    kResent,
    kRnr,
    {.heading = "RTT us",
     .align = Align::kRight,
     .keep = 1,
     .cell =
         [](const Sample& s, const Look&) {
           const std::uint32_t ns = s.qp->levels.round_trip_ns;
           return ns == 0 ? Cell("-") : Cell(short_number(ns / 1000.0));
         }},
    {.heading = "WND",
     .align = Align::kRight,
     .keep = 1,
     .cell =
         [](const Sample& s, const Look&) {
           return s.qp->levels.round_trip_ns == 0 ? Cell("-") : Cell(short_number(s.qp->levels.window));
         }},
    {.heading = "LOST",
     .align = Align::kRight,
     .keep = 1,
     .cell = [](const Sample& s, const Look&) { return of_recovery(s, QpCounter::kLostPackets); }},
    {.heading = "NAK",
     .align = Align::kRight,
     .keep = 1,
     .cell = [](const Sample& s, const Look&) { return of_recovery(s, QpCounter::kSequenceNaks); }},
    {.heading = "TMO",
     .align = Align::kRight,
     .keep = 1,
     .cell = [](const Sample& s, const Look&) { return of_recovery(s, QpCounter::kTimeouts); }},
    {.heading = "PROBE", .align = Align::kRight, .keep = 1, .cell = [](const Sample& s, const Look&) {
       return of_recovery(s, QpCounter::kProbes);
     }}};

std::span<const ColumnRule> rules_of(TableKind kind) {
  if (kind == TableKind::kProcesses) return kProcessColumns;
  return kQueuePairColumns;
}

double rank(const Sample& sample, Order order) {
  const Activity& activity = sample.rate ? *sample.rate : sample.total;
  switch (order) {
    case Order::kOctets: return activity.sent_octets + activity.received_octets;
    case Order::kMessages: return activity.sent + activity.received;
    case Order::kResent: return static_cast<double>(sample.resent);
    case Order::kRnr: return static_cast<double>(sample.rnr);
    case Order::kPid: break;
  }
  return 0;
}

}  // namespace

std::vector<Sample> samples_of_processes(const Observation& now, const Observation* before) {
  const Earlier earlier(now, before);
  std::vector<Sample> samples;
  for (const ObservedProcess& process : now.processes) {
    samples.push_back({.process = &process,
                       .total = activity_of(process),
                       .rate = earlier.rate(process),
                       .resent = process.counter("packets_resent"),
                       .rnr = process.counter("rnr_naks_received"),
                       .errors = process.counter("error_completions")});
  }
  return samples;
}

std::vector<Sample> samples_of_queue_pairs(const Observation& now, const Observation* before) {
  const Earlier earlier(now, before);
  std::vector<Sample> samples;
  for (const ObservedProcess& process : now.processes) {
    for (const control::QpSnapshot& qp : process.queue_pairs) {
      samples.push_back({.process = &process,
                         .qp = &qp,
                         .total = activity_of(qp),
                         .rate = earlier.rate(process, qp),
                         .resent = value_of(qp, QpCounter::kRetransmittedPackets),
                         .rnr = value_of(qp, QpCounter::kReceiverNotReady)});
    }
  }
  return samples;
}

std::string_view name_of(Order order) { return kOrderNames[static_cast<std::size_t>(order)]; }

std::optional<Order> order_of(std::string_view name) {
  const auto found = std::find(kOrderNames.begin(), kOrderNames.end(), name);
  if (found == kOrderNames.end()) return std::nullopt;
  return static_cast<Order>(found - kOrderNames.begin());
}

// Samples arrive in order of pid; ties keep that order.
void sort_samples(std::vector<Sample>& samples, Order order, bool reversed) {
  if (order != Order::kPid) {
    std::stable_sort(samples.begin(), samples.end(),
                     [&](const Sample& a, const Sample& b) { return rank(a, order) > rank(b, order); });
  }
  if (reversed) std::reverse(samples.begin(), samples.end());
}

bool shows(const Sample& sample, std::string_view text) {
  if (text.empty()) return true;
  const TableForm form;
  const wire::Palette palette;
  const Look look{form, palette};
  for (const ColumnRule& rule :
       rules_of(sample.qp == nullptr ? TableKind::kProcesses : TableKind::kQueuePairs)) {
    if (rule.align == Align::kRight && rule.heading != kPid.heading) continue;  // numbers are not names
    if (rule.cell(sample, look).text.find(text) != std::string::npos) return true;
  }
  return sample.qp != nullptr && sample.process->entry.program.find(text) != std::string::npos;
}

std::string table_of(TableKind kind, std::span<const Sample> samples, const TableForm& form,
                     const wire::Palette& palette) {
  std::vector<Column> columns;
  for (const ColumnRule& rule : rules_of(kind)) {
    std::string heading(rule.heading);
    if (rule.per_second && form.rates) heading += "/s";
    if (form.marked && rule.order == form.marked) heading += "*";
    columns.push_back({heading, rule.align, rule.keep, rule.shrinks_to});
  }
  Table table(std::move(columns));
  const Look look{form, palette};
  for (const Sample& sample : samples) {
    std::vector<Cell> row;
    for (const ColumnRule& rule : rules_of(kind)) row.push_back(rule.cell(sample, look));
    table.add(std::move(row));
  }
  return table.text(palette.name, palette.reset, form.width);
}

std::string peer_text(const control::QpFields& fields) {
  if (fields.peer_gid.is_zero()) return "-";
  return formatted("{} {:#08x}", wire::to_text(fields.peer_gid), fields.peer_qpn);
}

}  // namespace rrdma::tools
