// The probe: asks a device questions that the specification leaves open or that providers answer differently,
// and prints one line for each, `key: answer`. It is plain libibverbs and librdmacm, so the same program runs
// on RRDMA and on the kernel's rxe; answers_test.py and tests/interop/rxe/answers.py compare the two.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

namespace answers {

// "EINVAL", "0", "errno 200".
std::string name_of_error(int error);
// "ok", or the error.
std::string outcome(int error);
std::string name_of_status(ibv_wc_status status);
void tell(const std::string& key, const std::string& answer);

// One device, a domain, a CQ and registered memory. Aborts the program if the device cannot give these.
class Table {
 public:
  static constexpr std::size_t kBytes = 16384;

  explicit Table(const char* device);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  [[nodiscard]] ibv_qp* create_qp(ibv_qp_type type, ibv_cq* to = nullptr, unsigned inline_bytes = 64) const;
  // RESET to the state, on the way of the specification; towards QP `peer` of this device.
  void move(ibv_qp* qp, ibv_qp_state to, std::uint32_t peer, std::uint8_t timeout = 14,
            std::uint8_t hops = 64) const;
  void connect(ibv_qp* one, ibv_qp* other) const;
  [[nodiscard]] ibv_ah* create_ah(std::uint8_t hops = 64) const;
  // The completion with this wr_id, "none" after two seconds without one.
  std::string completion(ibv_cq* from, std::uint64_t wr_id) const;
  [[nodiscard]] ibv_sge at(std::size_t offset, std::uint32_t length) const;
  [[nodiscard]] std::uint64_t address(std::size_t offset) const;

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  std::uint8_t* memory = nullptr;
  std::uint8_t gid_index = 0;
  ibv_gid gid{};
};

std::string state_of(ibv_qp* qp);
int post(ibv_qp* qp, ibv_send_wr wr);
int receive(ibv_qp* qp, std::uint64_t id, ibv_sge sge);
// "EINVAL", or the completion if the request was posted.
std::string posted(const Table& table, ibv_qp* qp, ibv_send_wr wr);

void ask_about_posting(const Table& table);
void ask_about_operations(const Table& table);
void ask_about_errors(const Table& table);
void ask_about_memory(const Table& table);
void ask_about_objects(const Table& table);
void ask_about_handles(const Table& table);
void ask_about_attributes(const Table& table);

// rdma_resolve_addr from `source` ("-": none) to `destination`; "IP" or "IP%interface".
int ask_for_route(const char* name, const char* source, const char* destination, int timeout_ms);

}  // namespace answers
