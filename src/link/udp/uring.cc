#include "link/udp/uring.h"

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/assert.h"

namespace rrdma::link {

struct Uring::State {
  io_uring ring{};
  std::vector<int> sockets;  // in order of registration

  [[nodiscard]] int index_of(int socket) const {
    const auto at = std::find(sockets.begin(), sockets.end(), socket);
    RRDMA_ASSERT(at != sockets.end());
    return static_cast<int>(at - sockets.begin());
  }
};

std::unique_ptr<Uring> Uring::open(std::span<const int> sockets) {
  auto state = std::make_unique<State>();
  state->sockets.assign(sockets.begin(), sockets.end());
  io_uring_params parameters{};
  if (io_uring_queue_init_params(kEntries, &state->ring, &parameters) != 0) return nullptr;
  if (io_uring_register_files(&state->ring, state->sockets.data(), static_cast<unsigned>(sockets.size())) !=
      0) {
    io_uring_queue_exit(&state->ring);
    return nullptr;
  }
  // A forked child must not share the rings' memory: its context is unusable anyway.
  (void)io_uring_ring_dontfork(&state->ring);
  return std::unique_ptr<Uring>(new Uring(std::move(state)));
}

Uring::Uring(std::unique_ptr<State> state) : state_(std::move(state)) {}

Uring::~Uring() { io_uring_queue_exit(&state_->ring); }

bool Uring::send(std::span<mmsghdr> messages, std::span<const int> sockets, std::span<int> outcomes) {
  io_uring& ring = state_->ring;
  RRDMA_ASSERT(messages.size() <= kEntries);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring);
    RRDMA_ASSERT(entry != nullptr);
    io_uring_prep_sendmsg(entry, state_->index_of(sockets[i]), &messages[i].msg_hdr,
                          MSG_DONTWAIT | MSG_NOSIGNAL);
    entry->flags |= IOSQE_FIXED_FILE;
    if (i + 1 < messages.size()) entry->flags |= IOSQE_IO_LINK;
    entry->user_data = i;
  }
  // Each send completes during the call. Wait for all nevertheless, because the messages are reused.
  const auto wanted = static_cast<unsigned>(messages.size());
  unsigned finished = 0;
  int submitted = io_uring_submit_and_wait(&ring, wanted);
  while (finished < wanted) {
    if (submitted < 0 && submitted != -EINTR && submitted != -EAGAIN && submitted != -EBUSY) return false;
    unsigned head = 0;
    unsigned seen = 0;
    io_uring_cqe* entry = nullptr;
    io_uring_for_each_cqe(&ring, head, entry) {
      if (entry->res != -ECANCELED) outcomes[entry->user_data] = entry->res < 0 ? -entry->res : 0;
      ++seen;
    }
    io_uring_cq_advance(&ring, seen);
    finished += seen;
    if (finished < wanted) submitted = io_uring_submit_and_wait(&ring, wanted - finished);
  }
  return true;
}

}  // namespace rrdma::link
