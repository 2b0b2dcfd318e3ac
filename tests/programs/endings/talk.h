// Talk: the connections of one run, over rdma_cm, each with a completion queue of its own. The client sends a
// message and waits for the reply, `rounds` times, and then sends one that gets none. A message is its
// number, from 1 on.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

namespace endings {

inline constexpr int kConnectionsMax = 8;
inline constexpr int kMessagesMax = 64;

// Memory that server, client and supervisor share. It shows the progress of the server after its end.
struct Evidence {
  struct Connection {
    std::atomic<std::uint32_t> seen;                   // messages that the server's program has polled
    std::array<std::uint64_t, kMessagesMax> received;  // the server's receive buffers
  };
  std::array<Connection, kConnectionsMax> connections;
  std::atomic<std::uint32_t> served;  // the server has seen everything
  std::atomic<std::uint32_t> over;    // the client has its completions
};

struct Plan {
  bool events = false;
  int rounds = 0;
  int connections = 1;
  [[nodiscard]] std::uint32_t messages() const { return static_cast<std::uint32_t>(rounds) + 1; }
};

// One side of a run.
class Talk {
 public:
  explicit Talk(const Plan& plan);
  ~Talk();
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  // The server. Returns the port.
  [[nodiscard]] std::uint16_t listen();
  void accept(Evidence& evidence);
  // Takes messages and replies until the last one of each connection is there.
  void serve(Evidence& evidence);
  // Polls every connection once.
  void poll_all();

  // The client. From then on it disconnects when the server does.
  void connect(std::uint16_t port);
  struct Outcome {
    std::array<std::uint32_t, kConnectionsMax> acknowledged{};  // messages that completed with success
    int status = 0;                                             // of the first that did not
    double last_seconds = 0;                                    // from the last post to its completion
  };
  [[nodiscard]] Outcome send_all();

 private:
  struct Line {
    rdma_cm_id* id = nullptr;
    ibv_cq* cq = nullptr;
    ibv_mr* outgoing = nullptr;
    ibv_mr* incoming = nullptr;
    std::uint64_t number = 0;  // what is sent
    std::array<std::uint64_t, kMessagesMax> replies{};
    std::uint32_t sent = 0, received = 0;  // completions
    int status = 0;
  };
  void open_line(Line& line, rdma_cm_id* id, void* memory);
  void close_line(Line& line);
  void send(Line& line, std::uint64_t number);
  void take(Line& line, const ibv_wc& completion);
  // Takes completions of this connection, or of any with a null; sleeps first where events are wanted.
  void progress(Line* line);
  void poll(Line& line);
  bool exchange(Line& line, std::uint64_t number);
  rdma_cm_event* await(rdma_cm_event_type type);
  void follow_disconnects();

  const Plan plan_;
  rdma_event_channel* cm_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  ibv_comp_channel* events_ = nullptr;
  std::array<Line, kConnectionsMax> lines_;
  std::atomic<bool> over_{false};
  std::thread watcher_;
};

}  // namespace endings
