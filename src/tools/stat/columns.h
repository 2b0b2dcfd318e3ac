// The columns of `rrdma stat` and `rrdma top`, each stated once: its heading, what stands in it, what it is
// sorted by, and which go first where the terminal is narrow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/stat/observation.h"
#include "tools/text_layout.h"
#include "wire/printer.h"

namespace rrdma::tools {

// What a process or a queue pair did: since it began, or (rates) in a second.
struct Activity {
  double sent = 0;
  double received = 0;
  double sent_octets = 0;
  double received_octets = 0;
};

// One row of either table.
struct Sample {
  const ObservedProcess* process = nullptr;
  const control::QpSnapshot* qp = nullptr;  // null: the process as a whole
  Activity total;
  std::optional<Activity> rate;  // since the observation before this one
  std::uint64_t resent = 0;      // these are rare: always since the beginning
  std::uint64_t rnr = 0;
  std::uint64_t errors = 0;  // of a process
};

// `before`: null the first time.
[[nodiscard]] std::vector<Sample> samples_of_processes(const Observation& now, const Observation* before);
[[nodiscard]] std::vector<Sample> samples_of_queue_pairs(const Observation& now, const Observation* before);

enum class TableKind : std::uint8_t { kProcesses, kQueuePairs };

// By what rows can be ordered, the largest first; by pid, the smallest first.
enum class Order : std::uint8_t { kOctets, kMessages, kResent, kRnr, kPid };
inline constexpr std::size_t kOrderCount = 5;
[[nodiscard]] std::string_view name_of(Order order);
[[nodiscard]] std::optional<Order> order_of(std::string_view name);
void sort_samples(std::vector<Sample>& samples, Order order, bool reversed);

// Whether a row shows the text anywhere: program, pid, QPN, peer, state.
[[nodiscard]] bool shows(const Sample& sample, std::string_view text);

struct TableForm {
  bool rates = false;           // totals otherwise
  std::optional<Order> marked;  // its columns are marked as those that decide
  std::size_t width = 0;        // columns of the terminal
};
[[nodiscard]] std::string table_of(TableKind kind, std::span<const Sample> samples, const TableForm& form,
                                   const wire::Palette& palette);

// The peer of a queue pair: "10.0.0.2 0x030001", or "-" while it has none.
[[nodiscard]] std::string peer_text(const control::QpFields& fields);

}  // namespace rrdma::tools
