// Memory windows of type 2: bound through one queue pair and usable only through it.
#include <cerrno>
#include <string>
#include <utility>

#include "lib/comm/pool_state.h"
#include "lib/comm/window_state.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

Result<Ref<WindowState>> WindowState::create(const Ref<Reactor>& reactor, void* data, std::size_t size,
                                             Access access) {
  const unsigned flags = reactor->limits().device_cap_flags;
  if ((flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) == 0)
    return Error(Code::kNotSupported, During::kShare)
        .with_note(reactor->device().name + " has no memory windows; share() opens the memory to every peer");
  if (size == 0) return Error(Code::kInvalid, During::kShare).with_note("nothing to share");
  const auto fail = [size](const char* what) {
    return Error(errno == ENOMEM ? Code::kNoMemory : Code::kSystem, During::kShare, errno)
        .with_note(std::string(what) + " for " + std::to_string(size) + " bytes");
  };
  Ref<WindowState> state(new WindowState(reactor));
  state->access_ = static_cast<unsigned>(verbs_access(access) & ~IBV_ACCESS_LOCAL_WRITE);
  const int local = IBV_ACCESS_MW_BIND | (writes(access) ? IBV_ACCESS_LOCAL_WRITE : 0);
  state->region_ = ibv_reg_mr(reactor->domain(), data, size, local);
  if (state->region_ == nullptr)
    return fail(errno == EFAULT ? "the kernel lends only writable pages, use share(): no registration"
                                : "no registration");
  state->window_ = ibv_alloc_mw(reactor->domain(), IBV_MW_TYPE_2);
  if (state->window_ == nullptr) return fail("no memory window");
  state->key_ = ibv_inc_rkey(state->window_->rkey);
  return state;
}

WindowState::~WindowState() { close(); }

void WindowState::close() {
  if (window_ != nullptr) ibv_dealloc_mw(std::exchange(window_, nullptr));
  if (region_ != nullptr) ibv_dereg_mr(std::exchange(region_, nullptr));
}

void WindowState::fill(ibv_send_wr& wr) const {
  wr.opcode = IBV_WR_BIND_MW;
  wr.num_sge = 0;
  wr.bind_mw.mw = window_;
  wr.bind_mw.rkey = key_;
  wr.bind_mw.bind_info = {region_, reinterpret_cast<std::uintptr_t>(region_->addr), region_->length, access_};
}

WindowHandle::WindowHandle() = default;
WindowHandle::WindowHandle(Ref<WindowState> state) : state_(std::move(state)) {}
WindowHandle::WindowHandle(WindowHandle&&) noexcept = default;
WindowHandle& WindowHandle::operator=(WindowHandle&&) noexcept = default;
WindowHandle::~WindowHandle() = default;
std::uint32_t WindowHandle::key() const {
  if (!state_) broken_contract("the address of a Window that was revoked");
  return state_->key();
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
