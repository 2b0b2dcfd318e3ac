// Echo on plain librdmacm and libibverbs. `echo_verbs HOST PORT` serves one client, `echo_verbs HOST PORT
// WORDS` asks. It does by hand much of what a library does, and omits the rest: see docs/learn/5-library.md.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

constexpr int kDepth = 8;            // receives posted at a time; nothing stops the peer from sending more
constexpr std::size_t kMost = 4096;  // bytes of a message

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

rdma_addrinfo* look_up(const char* host, const char* port, int flags) {
  rdma_addrinfo hints{};
  hints.ai_flags = flags;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* found = nullptr;
  if (rdma_getaddrinfo(host, port, &hints, &found) != 0) fail("rdma_getaddrinfo");
  return found;
}

ibv_qp_init_attr queues() {
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {kDepth, kDepth, 1, 1, 0};
  attributes.sq_sig_all = 1;
  return attributes;
}

// The memory of one connection: kDepth slots for receiving, one for sending.
class Memory {
 public:
  explicit Memory(rdma_cm_id* id) : id_(id), region_(rdma_reg_msgs(id, octets_.data(), octets_.size())) {
    if (region_ == nullptr) fail("rdma_reg_msgs");
    for (std::size_t i = 0; i < kDepth; ++i) post_receive(place(i));
  }
  ~Memory() { rdma_dereg_mr(region_); }

  void post_receive(char* where) {
    if (rdma_post_recv(id_, where, where, kMost, region_) != 0) fail("rdma_post_recv");
  }
  // The next message, in place; an empty one closes. Return the slot with post_receive.
  std::string_view receive() {
    ibv_wc wc{};
    if (rdma_get_recv_comp(id_, &wc) < 1) fail("rdma_get_recv_comp");
    if (wc.status != IBV_WC_SUCCESS) {
      std::fprintf(stderr, "receive: %s\n", ibv_wc_status_str(wc.status));
      std::exit(1);
    }
    return {reinterpret_cast<char*>(wc.wr_id), wc.byte_len};
  }
  void send(std::string_view words) {
    char* from = place(kDepth);
    std::memcpy(from, words.data(), words.size());
    if (rdma_post_send(id_, nullptr, from, words.size(), region_, 0) != 0) fail("rdma_post_send");
    // The device uses the memory until the completion.
    ibv_wc wc{};
    if (rdma_get_send_comp(id_, &wc) < 1 || wc.status != IBV_WC_SUCCESS) fail("send");
  }

 private:
  char* place(std::size_t number) { return octets_.data() + number * kMost; }
  rdma_cm_id* id_;
  std::array<char, (kDepth + 1) * kMost> octets_{};
  ibv_mr* region_;
};

void serve(const char* host, const char* port) {
  rdma_addrinfo* address = look_up(host, port, RAI_PASSIVE);
  ibv_qp_init_attr attributes = queues();
  rdma_cm_id* listener = nullptr;
  if (rdma_create_ep(&listener, address, nullptr, &attributes) != 0) fail("rdma_create_ep");
  if (rdma_listen(listener, 1) != 0) fail("rdma_listen");
  rdma_cm_id* id = nullptr;
  if (rdma_get_request(listener, &id) != 0) fail("rdma_get_request");
  {
    Memory memory(id);  // posted before the client can send
    if (rdma_accept(id, nullptr) != 0) fail("rdma_accept");
    for (std::string_view words = memory.receive(); !words.empty(); words = memory.receive()) {
      memory.send(words);
      memory.post_receive(const_cast<char*>(words.data()));
    }
  }
  rdma_disconnect(id);
  rdma_destroy_ep(id);
  rdma_destroy_ep(listener);
  rdma_freeaddrinfo(address);
}

void ask(const char* host, const char* port, const char* words) {
  rdma_addrinfo* address = look_up(host, port, 0);
  ibv_qp_init_attr attributes = queues();
  rdma_cm_id* id = nullptr;
  if (rdma_create_ep(&id, address, nullptr, &attributes) != 0) fail("rdma_create_ep");
  {
    Memory memory(id);
    if (rdma_connect(id, nullptr) != 0) fail("rdma_connect");
    memory.send(words);
    const std::string_view answer = memory.receive();
    std::printf("%.*s\n", static_cast<int>(answer.size()), answer.data());
    memory.send("");
  }
  rdma_disconnect(id);
  rdma_destroy_ep(id);
  rdma_freeaddrinfo(address);
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return std::fprintf(stderr, "usage: echo_verbs HOST PORT [WORDS]\n"), 2;
  count > 3 ? ask(words[1], words[2], words[3]) : serve(words[1], words[2]);
}
