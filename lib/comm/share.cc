// Registration: memory of the caller that is temporarily open to peers.
#include "rrdma/comm/share.h"

#include <cerrno>

#include "lib/comm/pool_state.h"
#include "lib/comm/reactor.h"
#include "rrdma/comm/context.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

Result<Registration> Registration::of(Context& context, const void* data, std::size_t size, Access access,
                                      bool changes) {
  Registration registration;
  registration.reactor_ = context.reactor();
  if (size == 0) return Error(Code::kInvalid, During::kShare).with_note("nothing to share");
  if (size > ~std::uint32_t{0})
    return Error(Code::kTooLarge, During::kShare).with_note("a remote span counts to 4 GiB");
  if (!changes && writes(access)) return written_const();
  // Read-only pages can be registered only without local write access.
  const int flags = verbs_access(access) & ~(changes ? 0 : IBV_ACCESS_LOCAL_WRITE);
  ibv_mr* region = ibv_reg_mr(context.reactor()->domain(), const_cast<void*>(data), size, flags);
  if (region == nullptr)
    return Error(errno == ENOMEM ? Code::kNoMemory : Code::kSystem, During::kShare, errno)
        .with_note(std::to_string(size) + " bytes");
  registration.region_ = region;
  registration.key_ = region->rkey;
  return registration;
}

Registration::Registration(Registration&& other) noexcept
    : reactor_(std::move(other.reactor_)), region_(std::exchange(other.region_, nullptr)), key_(other.key_) {}

Registration& Registration::operator=(Registration&& other) noexcept {
  if (this != &other) {
    revoke();
    reactor_ = std::move(other.reactor_);
    region_ = std::exchange(other.region_, nullptr);
    key_ = other.key_;
  }
  return *this;
}

void Registration::revoke() noexcept {
  if (region_ != nullptr) ibv_dereg_mr(static_cast<ibv_mr*>(std::exchange(region_, nullptr)));
  reactor_.reset();
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
