#include "examples/verbs/workload.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace examples {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kRoundsShown = 3;
constexpr std::string_view kGoodbye = "all sent";
constexpr std::string_view kVerdict = "all right";

// The value of byte `i` of a message in this round.
std::uint8_t pattern(std::uint32_t round, std::size_t i) {
  return static_cast<std::uint8_t>(round * 31 + i * 7 + 3);
}

void fill(std::span<std::uint8_t> memory, std::uint32_t round) {
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = pattern(round, i);
}

void check(std::span<const std::uint8_t> memory, std::uint32_t round) {
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i] != pattern(round, i))
      fail("byte " + std::to_string(i) + " of round " + std::to_string(round) + " is wrong");
  }
}

void send_word(Channel& channel, std::string_view word) {
  channel.wait_under_way(0);
  std::copy(word.begin(), word.end(), channel.source().begin());
  channel.send(static_cast<std::uint32_t>(word.size()));
  channel.wait_under_way(0);
}

void expect_word(Channel& channel, std::string_view word) {
  const auto message = channel.next_message();
  if (!std::equal(message.begin(), message.end(), word.begin(), word.end()))
    fail("the other end said something unexpected");
}

std::uint64_t word_at(const std::uint8_t* memory) {
  std::uint64_t value = 0;
  std::memcpy(&value, memory, sizeof value);
  return value;
}

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

// Runs and checks one operation of the mode. For SEND: there and back.
void run_round(Channel& channel, const Plan& plan, const RemoteMemory& remote, std::uint32_t round) {
  const auto octets = channel.source().first(plan.size);
  switch (plan.mode) {
    case Mode::kSend:
      channel.send(plan.size);
      check(channel.next_message(), round);
      channel.wait_under_way(0);
      return;
    case Mode::kWrite:
      channel.write(remote, plan.size);
      channel.wait_under_way(0);
      return;
    case Mode::kRead:
      channel.read(remote, plan.size);
      channel.wait_under_way(0);
      check(octets, 0);
      return;
    case Mode::kAtomic:
      channel.fetch_add(remote, 1);
      channel.wait_under_way(0);
      if (word_at(octets.data()) != kCounterStart + round) fail("the counter has a wrong value");
      return;
  }
}

void post_one(Channel& channel, const Plan& plan, const RemoteMemory& remote) {
  switch (plan.mode) {
    case Mode::kSend: channel.send(plan.size); return;
    case Mode::kWrite: channel.write(remote, plan.size); return;
    case Mode::kRead: channel.read(remote, plan.size); return;
    case Mode::kAtomic: channel.fetch_add(remote, 1); return;
  }
}

const char* operation(Mode mode) {
  switch (mode) {
    case Mode::kSend: return "SEND and echo";
    case Mode::kWrite: return "RDMA WRITE";
    case Mode::kRead: return "RDMA READ";
    case Mode::kAtomic: return "ATOMIC fetch and add";
  }
  return "?";
}

void measure_latency(Channel& channel, const Plan& plan, const RemoteMemory& remote, Narrator& narrator) {
  std::vector<double> times;
  times.reserve(plan.rounds);
  narrator.step("%u rounds, one at a time: %s", plan.rounds, operation(plan.mode));
  for (std::uint32_t round = 0; round < plan.rounds; ++round) {
    if (plan.mode == Mode::kSend || plan.mode == Mode::kWrite) fill(channel.source().first(plan.size), round);
    const auto start = Clock::now();
    run_round(channel, plan, remote, round);
    times.push_back(microseconds(Clock::now() - start));
    if (round < kRoundsShown)
      narrator.detail("round %u: completed (%s), %.1f us", round + 1, ibv_wc_status_str(IBV_WC_SUCCESS),
                      times.back());
  }
  std::sort(times.begin(), times.end());
  narrator.step("Latency: min %.1f us, median %.1f us, max %.1f us", times.front(), times[times.size() / 2],
                times.back());
}

void measure_bandwidth(Channel& channel, const Plan& plan, const RemoteMemory& remote, Narrator& narrator) {
  fill(channel.source().first(plan.size), plan.rounds - 1);
  const auto start = Clock::now();
  for (std::uint32_t round = 0; round < plan.rounds; ++round) {
    channel.wait_under_way(Channel::kDepth - 1);
    post_one(channel, plan, remote);
  }
  channel.wait_under_way(0);
  if (plan.mode == Mode::kRead) check(channel.source().first(plan.size), 0);
  const double seconds = microseconds(Clock::now() - start) / 1e6;
  const double octets = plan.mode == Mode::kAtomic ? 8.0 : plan.size;
  narrator.step("Bandwidth, %u in flight: %.1f MB/s, %.0f messages/s", Channel::kDepth,
                octets * plan.rounds / seconds / 1e6, plan.rounds / seconds);
}

// After all counting, sets the counter to a value that only a compare and swap can produce.
void swap_counter(Channel& channel, const Plan& plan, const RemoteMemory& remote, Narrator& narrator) {
  const std::uint64_t reached = kCounterStart + 2 * std::uint64_t{plan.rounds};
  channel.compare_swap(remote, reached, ~reached);
  channel.wait_under_way(0);
  if (word_at(channel.source().data()) != reached) fail("the counter did not count every round");
  narrator.step("ATOMIC compare and swap: the counter had reached %llu",
                static_cast<unsigned long long>(reached));
}

void check_target(Channel& channel, const Plan& plan) {
  if (plan.mode == Mode::kWrite) check(channel.target().first(plan.size), plan.rounds - 1);
  if (plan.mode == Mode::kAtomic &&
      word_at(channel.target().data()) != ~(kCounterStart + 2 * std::uint64_t{plan.rounds})) {
    fail("the counter has a wrong final value");
  }
}

}  // namespace

void prepare_target(Channel& channel, const Plan& plan) {
  fill(channel.target().first(plan.mode == Mode::kAtomic ? 0 : plan.size),
       plan.mode == Mode::kRead ? 0 : ~0u);
  if (plan.mode == Mode::kAtomic) std::memcpy(channel.target().data(), &kCounterStart, sizeof kCounterStart);
}

void serve(Channel& channel, const Plan& plan, Narrator& narrator) {
  narrator.step("Serving: %s, %u rounds of %u bytes", operation(plan.mode), plan.rounds, plan.size);
  if (plan.mode == Mode::kSend) {
    for (std::uint32_t round = 0; round < plan.rounds; ++round) {
      const auto message = channel.next_message();
      check(message, round);
      std::copy(message.begin(), message.end(), channel.source().begin());
      channel.send(static_cast<std::uint32_t>(message.size()));
      channel.wait_under_way(0);
    }
    for (std::uint32_t round = 0; round < plan.rounds; ++round)
      check(channel.next_message(), plan.rounds - 1);
  }
  expect_word(channel, kGoodbye);
  check_target(channel, plan);
  send_word(channel, kVerdict);
  narrator.step("Verified every byte");
}

void call(Channel& channel, const Plan& plan, const RemoteMemory& remote, Narrator& narrator) {
  measure_latency(channel, plan, remote, narrator);
  measure_bandwidth(channel, plan, remote, narrator);
  if (plan.mode == Mode::kAtomic) swap_counter(channel, plan, remote, narrator);
  send_word(channel, kGoodbye);
  expect_word(channel, kVerdict);
  narrator.step("Last completion: the server verified every byte");
}

}  // namespace examples
