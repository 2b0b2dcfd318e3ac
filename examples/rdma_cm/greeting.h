// The private data of the connection manager's messages: the client sends its plan with the request, the
// server its memory with the reply. All numbers are in network byte order.
#pragma once

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include <cstring>

#include "examples/verbs/workload.h"

namespace examples {

struct PlanWords {
  std::uint32_t mode, rounds, size;
};
struct MemoryWords {
  std::uint32_t address_high, address_low, key;
};

inline PlanWords words_of(const Plan& plan) {
  return {htonl(static_cast<std::uint32_t>(plan.mode)), htonl(plan.rounds), htonl(plan.size)};
}
inline MemoryWords words_of(const RemoteMemory& memory) {
  return {htonl(static_cast<std::uint32_t>(memory.address >> 32)),
          htonl(static_cast<std::uint32_t>(memory.address)), htonl(memory.key)};
}

// Returns false if the words are not a valid plan.
inline bool read_plan(const rdma_conn_param& told, Plan& plan) {
  PlanWords words{};
  if (told.private_data == nullptr || told.private_data_len < sizeof words) return false;
  std::memcpy(&words, told.private_data, sizeof words);
  if (ntohl(words.mode) > 3 || ntohl(words.rounds) == 0 || ntohl(words.size) == 0 ||
      ntohl(words.size) > 1u << 30)
    return false;
  plan = {static_cast<Mode>(ntohl(words.mode)), ntohl(words.rounds), ntohl(words.size)};
  return true;
}
inline bool read_memory(const rdma_conn_param& told, RemoteMemory& memory) {
  MemoryWords words{};
  if (told.private_data == nullptr || told.private_data_len < sizeof words) return false;
  std::memcpy(&words, told.private_data, sizeof words);
  memory = {std::uint64_t{ntohl(words.address_high)} << 32 | ntohl(words.address_low), ntohl(words.key)};
  return true;
}

// Requests, responses and retries for both ends.
template <typename Words>
rdma_conn_param parameters_with(const Words& words) {
  rdma_conn_param parameters{};
  parameters.private_data = &words;
  parameters.private_data_len = sizeof words;
  parameters.responder_resources = 16;  // concurrent READs and atomics of the peer
  parameters.initiator_depth = 16;      // and our own
  parameters.retry_count = 7;
  parameters.rnr_retry_count = 7;  // retry forever
  return parameters;
}

}  // namespace examples
