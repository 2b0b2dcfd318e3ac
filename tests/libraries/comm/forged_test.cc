// A peer that connects correctly and then sends messages that this library never sends. Its connection ends
// with an error that names it; other connections are not affected.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "tests/libraries/comm/world.h"

namespace comm_test::forged_test {

// kind, reserved, credits, length (little-endian), then the payload.
std::string message(std::uint8_t kind, std::uint8_t reserved, std::uint16_t credits, std::uint32_t length,
                    std::size_t octets) {
  std::string out(8 + octets, 'x');
  out[0] = static_cast<char>(kind);
  out[1] = static_cast<char>(reserved);
  std::memcpy(out.data() + 2, &credits, sizeof(credits));
  std::memcpy(out.data() + 4, &length, sizeof(length));
  return out;
}

// Connects with a valid hello, sends these messages, and stays until the other end closes.
class Forger {
 public:
  Forger(const std::string& host, std::uint16_t port) {
    rdma_addrinfo hints{};
    hints.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo* found = nullptr;
    if (rdma_getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return;
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {128, 16, 1, 1, 0};
    attributes.sq_sig_all = 1;
    if (rdma_create_ep(&id_, found, nullptr, &attributes) != 0) id_ = nullptr;
    rdma_freeaddrinfo(found);
    if (id_ == nullptr) return;
    memory_.resize(1 << 17);
    region_ = rdma_reg_msgs(id_, memory_.data(), memory_.size());
    for (std::size_t i = 0; i < 8; ++i)
      rdma_post_recv(id_, nullptr, memory_.data() + 32768 + i * 4104, 4104, region_);
    // Gives up soon without an answer: 4 us << 14, seven times. (For rxe, a retry count of 7 means forever.)
    std::uint8_t timeout = 14;
    rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout));
    const std::string hello("Rc\x01\0\0\x08\0\0\0\0\x10\0", 12);
    rdma_conn_param parameters{};
    parameters.private_data = hello.data();
    parameters.private_data_len = static_cast<std::uint8_t>(hello.size());
    parameters.retry_count = 6;
    connected_ = rdma_connect(id_, &parameters) == 0;
  }
  ~Forger() {
    if (id_ == nullptr) return;
    if (connected_) rdma_disconnect(id_);
    if (region_ != nullptr) rdma_dereg_mr(region_);
    rdma_destroy_ep(id_);
  }
  [[nodiscard]] bool connected() const { return connected_; }
  ibv_wc_status send(const std::string& octets) {
    std::memcpy(memory_.data(), octets.data(), octets.size());
    rdma_post_send(id_, nullptr, memory_.data(), octets.size(), region_, 0);
    ibv_wc wc{};
    rdma_get_send_comp(id_, &wc);
    return wc.status;
  }

 private:
  rdma_cm_id* id_ = nullptr;
  ibv_mr* region_ = nullptr;
  std::vector<char> memory_;
  bool connected_ = false;
};

// A Forger in its own thread. The context must be polled to answer its disconnect, so poll until it is gone.
// Otherwise rdma_disconnect would wait for all its timeouts, more than a minute.
class Stranger {
 public:
  Stranger(Context& context, std::uint16_t port, const std::function<void(Forger&)>& deeds)
      : context_(context), thread_([this, host = address_of(context), port, deeds] {
          {
            Forger forger(host, port);
            EXPECT_TRUE(forger.connected());
            deeds(forger);
            while (!over_) std::this_thread::sleep_for(1ms);
          }
          context_.post([this] { gone_ = true; });
        }) {}
  ~Stranger() { leave(); }
  void leave() {
    over_ = true;
    EXPECT_TRUE(context_.run_until([this] { return gone_; }, Clock::now() + kPatience));
  }

 private:
  Context& context_;
  std::atomic<bool> over_{false};
  bool gone_ = false;
  std::jthread thread_;
};

class Forged : public World {
 protected:
  void expect(const char* what, const std::vector<std::string>& messages, Code code,
              const Profile& profile = {}) {
    SCOPED_TRACE(what);
    Pair other = connect();
    std::atomic<bool> let_in{false};  // earlier, it would only be skipped
    const Stranger stranger(context_, listener_.port(), [messages, &let_in](Forger& forger) {
      while (!let_in) std::this_thread::sleep_for(1ms);
      for (const std::string& one : messages) {
        forger.send(one);
        std::this_thread::sleep_for(1ms);
      }
    });
    run([](Listener& listener, Pair& undisturbed, Code expected, Profile own,
           std::atomic<bool>& accepted) -> Task<> {
      auto incoming = co_await listener.accept(own, kPatience);
      accepted = true;
      Endpoint end = std::move(incoming).value_or_throw();
      const std::string peer(end.peer());
      for (;;) {
        auto received = co_await end.receive(kPatience);
        if (received) continue;
        EXPECT_EQ(received.error().code(), expected) << received.error().what();
        EXPECT_EQ(received.error().peer(), peer);
        break;
      }
      EXPECT_FALSE(end.open());
      EXPECT_FALSE((co_await end.send("anybody?", kPatience)).ok());
      (co_await undisturbed.client.send("undisturbed", kPatience)).value_or_throw();
      EXPECT_EQ((co_await undisturbed.server.receive(kPatience)).value_or_throw().text(), "undisturbed");
    }(listener_, other, code, profile, let_in));
  }
};

TEST_F(Forged, Headers) {
  expect("no whole header", {"abc"}, Code::kProtocol);
  expect("an unknown kind", {message(9, 0, 0, 4, 4)}, Code::kProtocol);
  expect("a reserved octet", {message(1, 1, 0, 4, 4)}, Code::kProtocol);
  expect("a length that is too large", {message(1, 0, 0, 4000, 4)}, Code::kProtocol);
  expect("a length that is too small", {message(1, 0, 0, 0, 4)}, Code::kProtocol);
  expect("credits that were never ours", {message(1, 0, 0xffff, 4, 4)}, Code::kProtocol);
  expect("one credit too many", {message(2, 0, 1, 0, 0)}, Code::kProtocol);
}

// A peer that misbehaves before it is accepted is skipped; the listener continues.
TEST_F(Forged, BeforeItIsLetIn) {
  for (int round = 0; round < 5; ++round) {
    Stranger stranger(context_, listener_.port(), [](Forger& forger) { forger.send("abc"); });
    auto accepting = listener_.accept(kPatience);
    accepting.start();
    context_.run_until([&] { return accepting.done(); }, Clock::now() + 200ms);
    if (accepting.done()) continue;  // it was accepted before its message arrived
    auto connecting = context_.connect(address(), kPatience);
    connecting.start();
    EXPECT_TRUE(
        context_.run_until([&] { return accepting.done() && connecting.done(); }, Clock::now() + kPatience));
    EXPECT_TRUE(accepting.await_resume().ok());
    auto late = listener_.accept(kPatience);  // a stranger that came last still waits for an answer
    late.start();
    stranger.leave();
  }
}

TEST_F(Forged, Behaviour) {
  expect("a message after the farewell", {message(3, 0, 0, 0, 0), message(1, 0, 0, 4, 4)},
         Code::kClosedByPeer);
  expect("a message that is larger than the limit", {message(1, 0, 0, 5000, 5000)}, Code::kProtocol);
  // The peer offers eight receives and never returns credits. Seven messages grant it credits; after that it
  // has none. If it is faster than this end, its device retries, so that the result is always the same.
  Profile patient;
  patient.rnr_retry = 7;
  expect("more messages than credits", std::vector<std::string>(400, message(1, 0, 0, 4, 4)), Code::kProtocol,
         patient);
}

// If its messages are not received, the device refuses the first excess message. All messages before it
// arrive.
TEST_F(Forged, MoreMessagesThanReceives) {
  Profile narrow;
  narrow.receive_depth = 8;
  int status = -1;
  Stranger stranger(context_, listener_.port(), [&](Forger& forger) {
    ibv_wc_status last = IBV_WC_SUCCESS;
    for (int i = 0; i < 100 && last == IBV_WC_SUCCESS; ++i) last = forger.send(message(1, 0, 0, 4, 4));
    context_.post([&, last] { status = last; });
  });
  Endpoint end = run(as_task(listener_.accept(narrow, kPatience))).value_or_throw();
  ASSERT_TRUE(context_.run_until([&] { return status >= 0; }, Clock::now() + kPatience));
  EXPECT_EQ(status, IBV_WC_RNR_RETRY_EXC_ERR);
  stranger.leave();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(run(as_task(end.receive(kPatience))).value_or_throw().text(), "xxxx");
  const Error error = run(as_task(end.receive(kPatience))).error();
  EXPECT_EQ(error.code(), Code::kPeerGone) << error.what();
  EXPECT_EQ(error.peer(), end.peer());
}

}  // namespace comm_test::forged_test
