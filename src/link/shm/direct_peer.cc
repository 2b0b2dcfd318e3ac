#include "link/shm/direct_peer.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fault_table.h"
#include "base/guarded_copy.h"
#include "base/result_try.h"
#include "objects/memory.h"

namespace rrdma::link {
namespace {

constexpr std::size_t kPieceOctets = 1024 * 1024;  // a call costs 3 us, the copy of a piece 80
constexpr std::size_t kVectorsMax = objects::kSgeMax + 1;
constexpr std::size_t kEndedMax = 64;

std::int64_t coarse_seconds() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec;
}

ssize_t move_octets(bool writes, pid_t pid, std::span<const iovec> local, std::span<const iovec> remote) {
  return ::syscall(writes ? SYS_process_vm_writev : SYS_process_vm_readv, pid, local.data(), local.size(),
                   remote.data(), remote.size(), 0UL);
}

// Number of bytes at the end of [at, at + length) to be written last. It is the whole last aligned word if
// the kernel copies it with one store. Otherwise it is only the last byte, because we do not control the
// order of several.
std::size_t tail_octets(std::uint64_t at, std::size_t length) {
  const std::size_t tail = std::min<std::size_t>(length, ((at + length - 1) & 7) + 1);
  return (tail & (tail - 1)) == 0 ? tail : 1;
}

bool is_allowed(const DirectKey& key, const DirectQp& qp, std::uint32_t need) {
  return key.domain == qp.domain && (key.access & need) != 0 && (qp.access & need) != 0 &&
         (key.only_through.value == 0 || key.only_through == qp.qpn);
}

bool is_within(const DirectKey& key, std::uint64_t address, std::uint64_t length) {
  return address >= key.address && length <= key.length && address - key.address <= key.length - length;
}

// Cuts `length` bytes off the front of `local` into `piece`. Returns the number of vectors used.
std::size_t cut(std::span<iovec>& local, std::size_t length, std::array<iovec, kVectorsMax>& piece) {
  std::size_t count = 0;
  while (length != 0) {
    iovec& first = local.front();
    const std::size_t part = std::min(first.iov_len, length);
    piece[count++] = {first.iov_base, part};
    length -= part;
    first.iov_base = static_cast<std::uint8_t*>(first.iov_base) + part;
    first.iov_len -= part;
    if (first.iov_len == 0) local = local.subspan(1);
  }
  return count;
}

// A copy between a piece of mapped memory and local vectors.
struct Copy {
  bool writes;
  std::span<const iovec> local;
  std::uint8_t* remote;
  std::size_t tail;  // bytes to be written last
};

// A tail of one word is one store, so a program that spins on it sees all of it or nothing.
RRDMA_MAY_FAULT void store_tail(std::uint8_t* to, const std::uint8_t* tail, std::size_t octets) {
  const auto store = [&]<typename Word>(Word) {
    Word word;
    __builtin_memcpy(&word, tail, sizeof word);
    __atomic_store_n(reinterpret_cast<Word*>(to), word, __ATOMIC_RELEASE);
  };
  switch (octets) {
    case 8: return store(std::uint64_t{});
    case 4: return store(std::uint32_t{});
    case 2: return store(std::uint16_t{});
    default: return store(std::uint8_t{});
  }
}

RRDMA_MAY_FAULT void copy_mapped(void* argument) {
  const Copy& copy = *static_cast<const Copy*>(argument);
  std::uint8_t* remote = copy.remote;
  if (!copy.writes) {
    for (const iovec& part : copy.local) {
      __builtin_memcpy(part.iov_base, remote, part.iov_len);
      remote += part.iov_len;
    }
    return;
  }
  std::size_t body = 0;
  for (const iovec& part : copy.local) body += part.iov_len;
  body -= copy.tail;
  std::uint8_t tail[8] = {};
  std::size_t kept = 0;
  for (const iovec& part : copy.local) {
    const std::size_t now = std::min(body, part.iov_len);
    __builtin_memcpy(remote, part.iov_base, now);
    __builtin_memcpy(tail + kept, static_cast<const std::uint8_t*>(part.iov_base) + now, part.iov_len - now);
    kept += part.iov_len - now;
    remote += now;
    body -= now;
  }
  if (copy.tail != 0) store_tail(remote, tail, copy.tail);
}

DirectOutcome outcome_of(bool copied) { return copied ? DirectOutcome::kMapped : DirectOutcome::kFault; }

DirectOutcome outcome_of(objects::FarCopy copy) {
  switch (copy) {
    case objects::FarCopy::kDone: return DirectOutcome::kFar;
    case objects::FarCopy::kFailed: return DirectOutcome::kFault;
    case objects::FarCopy::kGoesOn: return DirectOutcome::kGoesOn;
    case objects::FarCopy::kStale: return DirectOutcome::kNotListed;
  }
  return DirectOutcome::kFault;
}

}  // namespace

Result<DirectPeer, ShmError> DirectPeer::open(const OwnedFd& table, pid_t pid,
                                              const DirectIntroduction& introduction,
                                              std::atomic<std::uint64_t>& in_use,
                                              objects::FarCopier* copier) {
  if (pid <= 0) return Failure{ShmError{ShmProblem::kNotReachable, ESRCH}};
  auto view = DirectTableView::open(table);
  RRDMA_TRY(view);
  DirectPeer peer(std::move(view).value(), pid, introduction, in_use, copier);
  if (!peer.is_the_same_process()) return Failure{ShmError{ShmProblem::kNotReachable, errno}};
  return peer;
}

// A pid can be reused by another process. The doorbell's hang-up usually reports this early; this check makes
// it certain, once a second during traffic. No system cycles through its pids faster.
bool DirectPeer::is_the_same_process() {
  const std::int64_t now = coarse_seconds();
  if (now == verified_s_) return true;
  if (!has_nonce()) return false;
  verified_s_ = now;
  return true;
}

bool DirectPeer::has_nonce() const {
  std::array<std::uint8_t, DirectIntroduction::kNonceOctets> nonce{};
  const iovec local{nonce.data(), nonce.size()};
  const iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(introduction_.nonce_address)),
                     nonce.size()};
  errno = 0;
  const ssize_t got = move_octets(false, pid_, {&local, 1}, {&remote, 1});
  return got == static_cast<ssize_t>(nonce.size()) && nonce == introduction_.nonce;
}

DirectOutcome DirectPeer::move_small(Way way, const iovec& local, std::uint8_t* mapped) {
  if (way == Way::kRead) return outcome_of(small_copy(local.iov_base, mapped, local.iov_len));
  return outcome_of(small_copy_end_last(mapped, local.iov_base, local.iov_len));
}

DirectOutcome DirectPeer::move_piece(Way way, std::span<const iovec> local, const Place& to,
                                     std::size_t length, bool last) const {
  const std::size_t tail = last ? tail_octets(to.address, length) : 0;
  if (to.mapped != nullptr) {
    if (local.size() == 1 && length <= kSmallCopyMax) return move_small(way, local.front(), to.mapped);
    Copy copy{way == Way::kWrite, local, to.mapped, tail};
    return outcome_of(guarded_call(copy_mapped, &copy));
  }
  std::array<iovec, 2> remote;
  std::size_t count = 0;
  if (length != tail)
    remote[count++] = {reinterpret_cast<void*>(static_cast<std::uintptr_t>(to.address)), length - tail};
  if (tail != 0)
    remote[count++] = {reinterpret_cast<void*>(static_cast<std::uintptr_t>(to.address + length - tail)),
                       tail};
  const ssize_t moved = move_octets(way == Way::kWrite, pid_, local, std::span(remote).first(count));
  if (moved == static_cast<ssize_t>(length)) return DirectOutcome::kDone;
  // EPERM: ptrace access was revoked. ESRCH: the process is gone. ENOSYS: a sandbox.
  const bool for_good = moved < 0 && (errno == EPERM || errno == ESRCH || errno == ENOSYS);
  return for_good ? DirectOutcome::kRefused : DirectOutcome::kFault;
}

bool DirectPeer::Rows::hold() const { return qp.holds() && key.holds(); }

// Usually the QP and the key are the same as last time, and both rows are still valid.
bool DirectPeer::find_rows(const objects::DirectTarget& target) {
  if (rows_ && rows_->qp.value.qpn == target.remote && rows_->key.value.rkey == target.rkey && rows_->hold())
    return true;
  rows_.reset();
  const auto qp = view_.find(target.remote);
  if (!qp) return false;
  const auto key = view_.find(target.rkey);
  if (!key) return false;
  rows_ = {*qp, *key};
  return true;
}

std::optional<DirectPeer::Place> DirectPeer::look_up(const objects::DirectTarget& target,
                                                     std::uint64_t length, std::uint32_t need) {
  if (!find_rows(target)) return {};
  const DirectQp& qp = rows_->qp.value;
  const DirectKey& key = rows_->key.value;
  if (qp.peer_qpn != target.local || qp.peer != introduction_.peer || !is_allowed(key, qp, need) ||
      !is_within(key, target.address, length))
    return {};
  const auto same = [this] { return has_nonce(); };
  if (key.far) [[unlikely]]
    return Place{0, nullptr, far_.find(rows_->key, target.address, length, same)};
  return Place{reinterpret_cast<std::uintptr_t>(key.host) + (target.address - key.address),
               mapped_.find(rows_->key, target.address, length, same),
               {}};
}

// One copy, however long it is: it takes less time than a piece of ordinary memory.
DirectOutcome DirectPeer::move_far(Way way, const Request& request, std::span<const iovec> local,
                                   const FarRegions::Place& to) {
  if (to.mapping == nullptr) return DirectOutcome::kNotListed;
  std::array<objects::PayloadSpan, kVectorsMax> from;
  std::array<objects::MutableSpan, kVectorsMax> into;
  for (std::size_t i = 0; i < local.size(); ++i) {
    auto* const data = static_cast<std::uint8_t*>(local[i].iov_base);
    from[i] = {data, local[i].iov_len};
    into[i] = {data, local[i].iov_len};
  }
  const objects::FarCopy copy = way == Way::kWrite
                                    ? to.mapping->write(to.at, std::span(from).first(local.size()))
                                    : to.mapping->read(to.at, std::span(into).first(local.size()));
  if (copy == objects::FarCopy::kGoesOn) running_ = {request, to.mapping};
  return outcome_of(copy);
}

void DirectPeer::review_copy() {
  const DirectOutcome outcome = outcome_of(running_->mapping->resume());
  if (outcome == DirectOutcome::kGoesOn) return;
  if (running_->request.qpn.value != 0) {
    if (ended_.size() == kEndedMax) ended_.erase(ended_.begin());  // a QP that is gone; or it copies again
    ended_.push_back({running_->request, outcome});
  }
  running_.reset();
  in_use_->store(in_use_->load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// A QP that asks for something else left its earlier request behind, such as in a reset.
std::optional<DirectOutcome> DirectPeer::take_ended(const Request& request, bool resumes) {
  review();
  if (running_ && running_->request.qpn == request.qpn && !(resumes && running_->request == request))
    running_->request.qpn = {};
  for (auto ended = ended_.begin(); ended != ended_.end(); ++ended) {
    if (ended->request.qpn != request.qpn) continue;
    const Ended found = *ended;
    ended_.erase(ended);
    if (resumes && found.request == request) return found.outcome;
    return std::nullopt;
  }
  return std::nullopt;
}

// While a copy goes on, regions are neither opened nor closed.
bool DirectPeer::reaches_far(const objects::DirectTarget& target) {
  review();
  bool far = false;
  (void)announced([&] {
    far = find_rows(target) && rows_->key.value.far &&
          (running_ || far_.find(rows_->key, rows_->key.value.address, 0, [this] {
                             return has_nonce();
                           }).mapping != nullptr);
    return DirectOutcome::kDone;
  });
  return far;
}

DirectOutcome DirectPeer::move_listed(Way way, const objects::DirectTarget& target, std::span<iovec> local,
                                      std::uint64_t length) {
  if (running_ && find_rows(target) && rows_->key.value.far) return DirectOutcome::kGoesOn;
  const auto place =
      look_up(target, length, way == Way::kWrite ? objects::kRemoteWrite : objects::kRemoteRead);
  if (!place) return DirectOutcome::kNotListed;
  if (rows_->key.value.far) [[unlikely]]
    return move_far(way, {target.local, target.address, length}, local, place->far);
  if (target.from_far) return DirectOutcome::kNotListed;
  Place at = *place;
  if (length <= kPieceOctets) return move_piece(way, local, at, length, true);
  std::array<iovec, kVectorsMax> piece;
  while (length != 0) {
    if (!rows_->hold()) return DirectOutcome::kNotListed;
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(length, kPieceOctets));
    const std::size_t count = cut(local, part, piece);
    const DirectOutcome outcome = move_piece(way, std::span(piece).first(count), at, part, part == length);
    if (part == length || (outcome != DirectOutcome::kDone && outcome != DirectOutcome::kMapped))
      return outcome;
    at.address += part;
    if (at.mapped != nullptr) at.mapped += part;
    length -= part;
  }
  return DirectOutcome::kDone;
}

// The owner checks our announcement before it releases memory.
template <typename Act>
DirectOutcome DirectPeer::announced(Act act) {
  if (refused_ || !is_the_same_process()) {
    refused_ = true;
    return DirectOutcome::kRefused;
  }
  if (running_) [[unlikely]]
    return act();  // already announced
  const std::uint64_t busy = in_use_->load(std::memory_order_relaxed) | 1;
  in_use_->store(busy, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const DirectOutcome outcome = act();
  if (!running_) in_use_->store(busy + 1, std::memory_order_release);
  refused_ = outcome == DirectOutcome::kRefused;
  return outcome;
}

DirectOutcome DirectPeer::move(Way way, const objects::DirectTarget& target, std::span<iovec> local,
                               std::uint64_t length) {
  // An empty request still depends on the state of the target's QP. Leave it to packets.
  if (length == 0) return DirectOutcome::kNotListed;
  if (running_ || !ended_.empty()) [[unlikely]] {
    if (const auto ended = take_ended({target.local, target.address, length}, target.resumes)) return *ended;
  }
  return announced([&] { return move_listed(way, target, local, length); });
}

DirectOutcome DirectPeer::atomic(const objects::DirectTarget& target, objects::AtomicCall& call) {
  return announced([&] {
    const auto at = look_up(target, sizeof *call.target, objects::kRemoteAtomic);
    if (!at || at->mapped == nullptr) return DirectOutcome::kNotListed;
    // Misaligned at the peer, which then reports the error, or here.
    call.target = reinterpret_cast<std::uint64_t*>(at->mapped);
    if (target.address % 8 != 0 || reinterpret_cast<std::uintptr_t>(call.target) % 8 != 0)
      return DirectOutcome::kNotListed;
    return outcome_of(guarded_call(objects::run_atomic, &call));
  });
}

DirectOutcome DirectPeer::write(const objects::DirectTarget& target,
                                std::span<const objects::PayloadSpan> from) {
  std::array<iovec, kVectorsMax> local;
  if (from.size() > local.size()) return DirectOutcome::kNotListed;
  std::size_t count = 0;
  std::uint64_t length = 0;
  for (const auto& span : from) {
    if (span.length == 0) continue;
    local[count++] = {const_cast<std::uint8_t*>(span.data), span.length};
    length += span.length;
  }
  return move(Way::kWrite, target, std::span(local).first(count), length);
}

DirectOutcome DirectPeer::read(const objects::DirectTarget& target,
                               std::span<const objects::MutableSpan> to) {
  std::array<iovec, kVectorsMax> local;
  if (to.size() > local.size()) return DirectOutcome::kNotListed;
  std::size_t count = 0;
  std::uint64_t length = 0;
  for (const auto& span : to) {
    if (span.length == 0) continue;
    local[count++] = {span.data, span.length};
    length += span.length;
  }
  return move(Way::kRead, target, std::span(local).first(count), length);
}

}  // namespace rrdma::link
