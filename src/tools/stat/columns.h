// The columns of `rrdma stat` and `rrdma top`: heading, content, sort key, and the order in which a narrow
// terminal drops them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dissection/printer.h"
#include "tools/stat/observation.h"
#include "tools/text_layout.h"

namespace rrdma::tools {

// The activity of a process or a queue pair: totals, or rates per second.
struct Activity {
  double sent = 0;
  double received = 0;
  double sent_octets = 0;
  double received_octets = 0;
};

// One row of either table.
struct Sample {
  const ObservedProcess* process = nullptr;
  const control::QpSnapshot* qp = nullptr;  // null: the whole process
  Activity total;
  std::optional<Activity> rate;  // since the previous observation
  std::uint64_t resent = 0;      // rare, so always a total
  std::uint64_t rnr = 0;
  std::uint64_t errors = 0;  // of a process
};

// `before`: null the first time.
[[nodiscard]] std::vector<Sample> samples_of_processes(const Observation& now, const Observation* before);
[[nodiscard]] std::vector<Sample> samples_of_queue_pairs(const Observation& now, const Observation* before);

enum class TableKind : std::uint8_t { kProcesses, kQueuePairs };

// Sort keys, largest first; pids smallest first.
enum class Order : std::uint8_t { kOctets, kMessages, kResent, kRnr, kPid };
inline constexpr std::size_t kOrderCount = 5;
[[nodiscard]] std::string_view name_of(Order order);
[[nodiscard]] std::optional<Order> order_of(std::string_view name);
void sort_samples(std::vector<Sample>& samples, Order order, bool reversed);

// Whether any column of a row contains the text: program, pid, QPN, peer, state.
[[nodiscard]] bool shows(const Sample& sample, std::string_view text);

struct TableForm {
  bool rates = false;           // totals otherwise
  std::optional<Order> marked;  // mark the columns of this sort key
  std::size_t width = 0;        // columns of the terminal
};
[[nodiscard]] std::string table_of(TableKind kind, std::span<const Sample> samples, const TableForm& form,
                                   const wire::Palette& palette);

// The peer of a queue pair: "10.0.0.2 0x030001", or "-" if there is none yet.
[[nodiscard]] std::string peer_text(const control::QpFields& fields);

}  // namespace rrdma::tools
