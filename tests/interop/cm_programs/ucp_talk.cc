// Two programs on UCX's UCP API that connect by address, for which UCX uses rdma_cm if
// UCX_SOCKADDR_TLS_PRIORITY=rdmacm. They echo and compare tagged messages of growing size.
//
//   ucp_talk server ADDRESS PORT        one client, until it has closed its end
//   ucp_talk client ADDRESS PORT
#include <netdb.h>
#include <ucp/api/ucp.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

namespace {

constexpr ucp_tag_t kToServer = 1;
constexpr ucp_tag_t kToClient = 2;
constexpr std::initializer_list<std::size_t> kSizes = {1, 8, 200, 4096, 65536, 1u << 20, 5'000'000};

[[noreturn]] void complain(const char* what, ucs_status_t status) {
  std::fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
  std::exit(1);
}

void check(const char* what, ucs_status_t status) {
  if (status != UCS_OK) complain(what, status);
}

class Peer {
 public:
  Peer() {
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_TAG;
    check("ucp_init", ucp_init(&parameters, nullptr, &context_));
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    check("ucp_worker_create", ucp_worker_create(context_, &worker, &worker_));
  }
  ~Peer() {
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void call(const addrinfo& to) {
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    parameters.sockaddr = {.addr = to.ai_addr, .addrlen = to.ai_addrlen};
    create_endpoint(parameters);
  }

  // Waits for one connection request and accepts it.
  void answer(const addrinfo& at) {
    ucp_listener_params_t parameters{};
    parameters.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    parameters.sockaddr = {.addr = at.ai_addr, .addrlen = at.ai_addrlen};
    parameters.conn_handler = {
        .cb = [](ucp_conn_request_h request, void* self) { static_cast<Peer*>(self)->request_ = request; },
        .arg = this};
    ucp_listener_h listener = nullptr;
    check("ucp_listener_create", ucp_listener_create(worker_, &parameters, &listener));
    std::puts("listening");
    std::fflush(stdout);
    while (request_ == nullptr) ucp_worker_progress(worker_);
    ucp_ep_params_t endpoint{};
    endpoint.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    endpoint.conn_request = request_;
    create_endpoint(endpoint);
    ucp_listener_destroy(listener);
  }

  void send(ucp_tag_t tag, const std::vector<std::uint8_t>& message) {
    const ucp_request_param_t plain{};
    finish("ucp_tag_send_nbx", ucp_tag_send_nbx(endpoint_, message.data(), message.size(), tag, &plain));
  }
  void receive(ucp_tag_t tag, std::vector<std::uint8_t>& message) {
    const ucp_request_param_t plain{};
    finish("ucp_tag_recv_nbx",
           ucp_tag_recv_nbx(worker_, message.data(), message.size(), tag, ~ucp_tag_t{0}, &plain));
  }
  void describe() { ucp_ep_print_info(endpoint_, stdout); }
  void close() {
    const ucp_request_param_t plain{};
    finish("ucp_ep_close_nbx", ucp_ep_close_nbx(endpoint_, &plain));
  }
  // Waits until the other side has closed.
  void await_end() {
    while (!failed_) ucp_worker_progress(worker_);
    ucp_request_param_t force{};
    force.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    force.flags = UCP_EP_CLOSE_FLAG_FORCE;
    finish("ucp_ep_close_nbx", ucp_ep_close_nbx(endpoint_, &force));
  }

 private:
  void create_endpoint(ucp_ep_params_t& parameters) {
    parameters.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    parameters.err_handler = {
        .cb = [](void* self, ucp_ep_h, ucs_status_t) { static_cast<Peer*>(self)->failed_ = true; },
        .arg = this};
    check("ucp_ep_create", ucp_ep_create(worker_, &parameters, &endpoint_));
  }
  void finish(const char* what, ucs_status_ptr_t request) {
    if (request == nullptr) return;
    if (UCS_PTR_IS_ERR(request)) complain(what, UCS_PTR_STATUS(request));
    ucs_status_t status = UCS_INPROGRESS;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) ucp_worker_progress(worker_);
    ucp_request_free(request);
    check(what, status);
  }

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucp_conn_request_h request_ = nullptr;
  bool failed_ = false;
};

std::vector<std::uint8_t> message_of(std::size_t size) {
  std::vector<std::uint8_t> message(size);
  for (std::size_t i = 0; i < size; ++i) message[i] = static_cast<std::uint8_t>(i * 31 + size);
  return message;
}

void serve(Peer& peer, const addrinfo& at) {
  peer.answer(at);
  for (const std::size_t size : kSizes) {
    std::vector<std::uint8_t> message(size);
    peer.receive(kToServer, message);
    peer.send(kToClient, message);
  }
  peer.await_end();
}

int talk(Peer& peer, const addrinfo& to) {
  peer.call(to);
  for (const std::size_t size : kSizes) {
    const std::vector<std::uint8_t> message = message_of(size);
    std::vector<std::uint8_t> echo(size);
    peer.send(kToServer, message);
    peer.receive(kToClient, echo);
    if (echo != message) return 1;
  }
  peer.describe();
  std::puts("all echoes right");
  peer.close();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* address = nullptr;
  if (::getaddrinfo(argv[2], argv[3], &hints, &address) != 0) return 2;
  Peer peer;
  if (std::string(argv[1]) == "client") return talk(peer, *address);
  serve(peer, *address);
  return 0;
}
