// Pool and Buffer: slabs, free lists by size class, quotas and waiters.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <string>

#include "lib/comm/owned_fd.h"
#include "lib/comm/pool_state.h"
#include "lib/comm/reactor.h"

#if defined(__SANITIZE_ADDRESS__)
#define RRDMA_COMM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RRDMA_COMM_ASAN 1
#endif
#endif
#ifdef RRDMA_COMM_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace rrdma::comm {
inline namespace v0 {
namespace detail {
namespace {

constexpr std::size_t kSmallestBlock = 64;
constexpr std::size_t kLargestSmall = 64 << 10;
constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kLargeKind = ~0U;
constexpr std::uint32_t kWrappedKind = kLargeKind - 1;
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = 2 << 20;
constexpr std::size_t kHugePiece = 256 << 10;     // pieces of this size or larger use huge pages
constexpr std::size_t kLargestGrowth = 32 << 20;  // of huge pages, unless a single piece is larger

std::uint32_t block_size_class(std::size_t size) {
  if (size > kLargestSmall) return kLargeKind;
  return static_cast<std::uint32_t>(std::countr_zero(std::bit_ceil(std::max(size, kSmallestBlock))) -
                                    std::countr_zero(kSmallestBlock));
}
constexpr std::size_t kBlockSizes = 11;  // 64 to 64 Ki

// Rounds a request up to the capacity of its size class.
std::size_t capacity_of(std::size_t size) {
  if (size > kLargestSmall) return (size + kPage - 1) / kPage * kPage;
  return std::bit_ceil(std::max(size, kSmallestBlock));
}

// Poisons free memory, so that AddressSanitizer reports an access.
void forbid([[maybe_unused]] const Chunk& chunk) {
#ifdef RRDMA_COMM_ASAN
  __asan_poison_memory_region(chunk.data - kHeadroom, chunk.capacity + kHeadroom);
#endif
}
void permit([[maybe_unused]] const Chunk& chunk) {
#ifdef RRDMA_COMM_ASAN
  __asan_unpoison_memory_region(chunk.data - kHeadroom, chunk.capacity + kHeadroom);
#endif
}
void permit([[maybe_unused]] const Slab& slab) {
#ifdef RRDMA_COMM_ASAN
  __asan_unpoison_memory_region(slab.data(), slab.size());
#endif
}

}  // namespace

bool writes(Access access) { return includes(access, Access::kWrite) || includes(access, Access::kAtomic); }
Error written_const() {
  return Error(Code::kInvalid, During::kShare)
      .with_note("memory of const objects can be opened for reading only");
}

int verbs_access(Access access) {
  int flags = IBV_ACCESS_LOCAL_WRITE;
  if (includes(access, Access::kRead)) flags |= IBV_ACCESS_REMOTE_READ;
  if (includes(access, Access::kWrite)) flags |= IBV_ACCESS_REMOTE_WRITE;
  if (includes(access, Access::kAtomic)) flags |= IBV_ACCESS_REMOTE_ATOMIC;
  return flags;
}

namespace {

std::size_t rounded_up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

// Shared memory, so that a software device can map the same pages for a peer on this host.
void* map_ordinary(std::size_t size) {
  const OwnedFd file(::memfd_create("rrdma-comm", MFD_CLOEXEC));
  if (!file || ::ftruncate(file.number(), static_cast<off_t>(size)) != 0) return MAP_FAILED;
  return ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
}

// Maps huge pages if the system has them, otherwise ordinary pages. The mapping is private, because most
// systems give no huge pages to shared memory. Copying between processes and pinning work page by page: one
// page of 2 MiB is cheaper than 512 pages of 4 KiB.
void* map_huge(std::size_t size) {
  void* found = ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) return found;
  auto* const begin = static_cast<std::byte*>(found);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before != 0) ::munmap(begin, before);
  ::munmap(begin + before + size, kHugePage - before);
  ::madvise(begin + before, size, MADV_HUGEPAGE);
  return begin + before;
}

}  // namespace

Result<std::unique_ptr<Slab>> Slab::map(ibv_pd* domain, std::size_t size, int access, Pages pages) {
  size = rounded_up(size, pages == Pages::kHuge ? kHugePage : kPage);
  const auto fail = [size](Code code, const char* what) {
    return Error(code, During::kTake, errno)
        .with_note(std::string(what) + " for " + std::to_string(size) + " bytes");
  };
  void* data = pages == Pages::kHuge ? map_huge(size) : map_ordinary(size);
  if (data == MAP_FAILED) return fail(Code::kNoMemory, "no mapping");
  std::unique_ptr<Slab> slab(new Slab(static_cast<std::byte*>(data), size, pages));
  slab->region_ = ibv_reg_mr(domain, data, size, access);
  if (slab->region_ == nullptr) return fail(Code::kNoMemory, "the device refuses to register memory");
  return slab;
}

Slab::~Slab() {
  if (region_ != nullptr) ibv_dereg_mr(region_);
  permit(*this);
  ::munmap(data_, size_);
}

PoolState::PoolState(Ref<Reactor> reactor, const PoolOptions& options)
    : reactor_(std::move(reactor)), options_(options), free_small_(kBlockSizes, nullptr) {
  reactor_->add_pool(this);
}

PoolState::PoolState(Ref<PoolState> source, std::size_t limit)
    : reactor_(source->reactor_), source_(std::move(source)) {
  options_.limit = limit;
  reactor_->add_pool(this);
}

PoolState::~PoolState() = default;

std::size_t PoolState::most_registered() const {
  const std::size_t limit = std::min(options_.limit, ~std::size_t{0} / 4);
  return 2 * (limit + options_.slab);
}

void PoolState::shrink() {
  // Takes the pieces of idle slabs out of a list of free ones.
  const auto keep_used = [this](Chunk*& list) {
    Chunk* kept = nullptr;
    for (Chunk* chunk = std::exchange(list, nullptr); chunk != nullptr;) {
      Chunk* const next = chunk->next;
      Chunk*& into = chunk->slab->in_use == 0 ? spare_ : kept;
      chunk->next = std::exchange(into, chunk);
      chunk = next;
    }
    list = kept;
  };
  for (Chunk*& list : free_small_) keep_used(list);
  for (auto& [capacity, list] : free_large_) keep_used(list);
  std::erase_if(free_large_, [](const auto& one) { return one.second == nullptr; });
  std::erase_if(slabs_, [this](const std::unique_ptr<Slab>& slab) {
    if (slab->in_use != 0) return false;
    Front& front = front_of(slab->pages());
    front.registered -= slab->size();
    if (front.slab == slab.get()) front.slab = nullptr;
    return true;
  });
}

Result<void> PoolState::grow(std::size_t size, Pages pages) {
  const int access = verbs_access(options_.remote);
  Front& front = front_of(pages);
  if (registered() + size > options_.limit) shrink();
  // Ordinary pages cost nothing until they are touched. For huge pages, double the memory each time, so that
  // few regions hold many pieces.
  std::size_t more = pages == Pages::kHuge ? std::min(front.registered, kLargestGrowth) : options_.slab;
  if (registered() + more > most_registered()) more = 0;
  if (registered() + size > most_registered()) {
    return Error(Code::kNoMemory, During::kTake)
        .with_note(std::to_string(registered()) + " bytes are registered, " + std::to_string(in_use_) +
                   " of them in use");
  }
  auto slab = Slab::map(reactor_->domain(), std::max(more, size), access, pages);
  if (!slab && more > size) slab = Slab::map(reactor_->domain(), size, access, pages);
  if (!slab) return slab.error();
  front.registered += (*slab)->size();
  slabs_.push_back(std::move(*slab));
  front.slab = slabs_.back().get();
  front.cut = 0;
  return {};
}

Result<Chunk*> PoolState::cut(std::size_t size, Pages pages) {
  const std::uint32_t kind = block_size_class(size);
  const std::size_t capacity = capacity_of(size);
  Chunk*& free = kind == kLargeKind ? free_large_[capacity] : free_small_[kind];
  if (free != nullptr) {
    Chunk* chunk = free;
    free = chunk->next;
    ++chunk->slab->in_use;
    return chunk;
  }
  Front& front = front_of(pages);
  const std::size_t whole = kHeadroom + rounded_up(capacity, kAlignment);
  if (front.slab == nullptr || front.slab->size() - front.cut < whole) {
    if (auto grown = grow(whole, pages); !grown) return grown.error();
  }
  Chunk& chunk = spare_ != nullptr ? *spare_ : chunks_.emplace_back();
  if (&chunk == spare_) spare_ = chunk.next;
  chunk.slab = front.slab;
  ++front.slab->in_use;
  chunk.data = front.slab->data() + front.cut + kHeadroom;
  chunk.capacity = capacity;
  chunk.lkey = front.slab->region().lkey;
  chunk.rkey = front.slab->region().rkey;
  chunk.kind = kind;
  front.cut += whole;
  return &chunk;
}

Result<Buffer> PoolState::take(std::size_t size) {
  // A software device maps memory that peers reach, which it can only do with shared memory.
  const bool huge = size >= kHugePiece && remote() == Access::kNone;
  return take(size, huge ? Pages::kHuge : Pages::kOrdinary);
}

Result<Buffer> PoolState::take(std::size_t size, Pages pages) {
  const std::size_t capacity = capacity_of(size);
  if (capacity < size || capacity > options_.limit || in_use_ > options_.limit - capacity) [[unlikely]] {
    return Error(Code::kNoMemory, During::kTake)
        .with_note(std::to_string(size) + " bytes are asked for, " + std::to_string(in_use_) +
                   " of at most " + std::to_string(options_.limit) + " are lent out");
  }
  if (source_) {
    auto buffer = source_->take(size, pages);
    if (!buffer) return buffer.error();
    // The chunk now belongs to this quota. The source still counts it.
    Chunk* chunk = std::exchange(buffer->chunk_, nullptr);
    in_use_ += capacity;
    return Buffer(Ref<PoolState>(this), chunk, size);
  }
  auto chunk = cut(size, pages);
  if (!chunk) return chunk.error();
  permit(**chunk);
  in_use_ += capacity;
  return Buffer(Ref<PoolState>(this), *chunk, size);
}

namespace {
// Memory of the caller. It is in no slab and counts against no limit.
struct WrappedChunk : Chunk {
  ibv_mr* region = nullptr;
  std::shared_ptr<void> owner;
};
}  // namespace

Result<Buffer> PoolState::wrap(std::span<const std::byte> memory, std::shared_ptr<void> owner) {
  if (memory.empty()) return Error(Code::kInvalid, During::kShare).with_note("nothing to wrap");
  if (memory.size() > ~std::uint32_t{0})
    return Error(Code::kTooLarge, During::kShare).with_note("a remote span counts to 4 GiB");
  auto chunk = std::make_unique<WrappedChunk>();
  chunk->data = const_cast<std::byte*>(memory.data());
  // Without local write access, so that read-only pages can be registered.
  const int access = IBV_ACCESS_REMOTE_READ;
  chunk->region = ibv_reg_mr(reactor_->domain(), chunk->data, memory.size(), access);
  if (chunk->region == nullptr)
    return Error(errno == ENOMEM ? Code::kNoMemory : Code::kSystem, During::kShare, errno)
        .with_note(std::to_string(memory.size()) + " bytes");
  chunk->capacity = memory.size();
  chunk->lkey = chunk->region->lkey;
  chunk->rkey = chunk->region->rkey;
  chunk->kind = kWrappedKind;
  chunk->owner = std::move(owner);
  return Buffer(Ref<PoolState>(this), chunk.release(), memory.size());
}

bool PoolState::wrapped(const Buffer& buffer) {
  return buffer.chunk_ != nullptr && buffer.chunk_->kind == kWrappedKind;
}

void PoolState::give_back(Chunk* chunk) {
  if (chunk->kind == kWrappedKind) {
    const std::unique_ptr<WrappedChunk> wrapped(static_cast<WrappedChunk*>(chunk));
    ibv_dereg_mr(wrapped->region);
    return;
  }
  in_use_ -= chunk->capacity;
  if (source_) {
    source_->give_back(chunk);
  } else {
    forbid(*chunk);
    --chunk->slab->in_use;
    Chunk*& free = chunk->kind == kLargeKind ? free_large_[chunk->capacity] : free_small_[chunk->kind];
    chunk->next = free;
    free = chunk;
  }
  if (!waiters_.empty()) serve_waiters();
}

bool PoolState::fits(std::size_t size) const {
  const std::size_t capacity = capacity_of(size);
  return capacity >= size && capacity <= options_.limit && (!source_ || source_->fits(size));
}

void PoolState::begin(Taking* taking) {
  PoolState& all = source();
  if (all.waiters_.empty() || !fits(taking->size_)) {
    auto buffer = take(taking->size_);
    if (buffer) {
      taking->buffer_ = std::move(*buffer);
      return taking->complete();
    }
    // Fail a request that can never be satisfied.
    if (!fits(taking->size_) || all.in_use_ == 0) return taking->fail(buffer.error());
  }
  all.waiters_.push_back(taking);
  all.serve_waiters();
}

void PoolState::withdraw(Taking* taking) {
  taking->leave_list();
  source().serve_waiters();
}

// Returns true if this quota lacks room or already made an earlier request of this walk wait. Requests of one
// quota are served in order.
bool PoolState::held_up(std::size_t size, std::uint64_t walk) {
  if (!source_) return false;
  if (held_up_ == walk || in_use_ > options_.limit - capacity_of(size)) {
    held_up_ = walk;
    return true;
  }
  return source_->held_up(size, walk);
}

// Serves waiters in order. A waiter that lacks memory of this pool blocks all later ones. A waiter that lacks
// only quota blocks those of the same quota.
void PoolState::serve_waiters() {
  ++walks_;
  for (Operation* next = waiters_.front(); next != nullptr;) {
    auto* taking = static_cast<Taking*>(next);
    next = waiters_.after(next);
    if (taking->pool_->held_up(taking->size_, walks_)) continue;
    auto buffer = taking->pool_->take(taking->size_);
    if (!buffer) return;
    taking->buffer_ = std::move(*buffer);
    taking->complete();
  }
}

void PoolState::shut_down() {
  while (auto* taking = static_cast<Taking*>(waiters_.pop_front())) taking->fail(Code::kClosed);
}

}  // namespace detail

void Buffer::release() noexcept {
  if (chunk_ == nullptr) return;
  pool_->give_back(std::exchange(chunk_, nullptr));
  pool_.reset();
  size_ = 0;
}

Taking::Taking(detail::Ref<detail::PoolState> pool, std::size_t size, Limit limit)
    : Operation(pool->reactor(), During::kTake, std::move(limit)), pool_(std::move(pool)), size_(size) {}

void Taking::begin() { pool_->begin(this); }
void Taking::withdraw() noexcept { pool_->withdraw(this); }

Result<Buffer> Taking::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return std::move(buffer_);
}

Pool::Pool(detail::Ref<detail::PoolState> state) : state_(std::move(state)) {}
Pool::Pool(Pool&&) noexcept = default;
Pool& Pool::operator=(Pool&&) noexcept = default;
Pool::~Pool() = default;

Result<Pool> Pool::create(Context& context, const PoolOptions& options) {
  return Pool(detail::Ref<detail::PoolState>(new detail::PoolState(context.reactor(), options)));
}

Result<Buffer> Pool::take(std::size_t size) { return state_checked()->take(size); }
Taking Pool::wait(std::size_t size, Limit limit) { return Taking(state_checked(), size, std::move(limit)); }
Pool Pool::quota(std::size_t limit) const {
  return Pool(detail::Ref<detail::PoolState>(new detail::PoolState(state_checked(), limit)));
}
Result<Buffer> Pool::wrap(std::span<const std::byte> memory, std::shared_ptr<void> owner) {
  return state_checked()->wrap(memory, std::move(owner));
}
bool Pool::wrapped(const Buffer& buffer) { return detail::PoolState::wrapped(buffer); }
bool Pool::owns(const Buffer& buffer) const { return buffer.pool_.raw() == state_checked().raw(); }
std::size_t Pool::in_use() const { return state_checked()->in_use(); }
std::size_t Pool::registered() const { return state_checked()->registered(); }
std::size_t Pool::limit() const { return state_checked()->limit(); }

}  // namespace v0
}  // namespace rrdma::comm
