// BatchBase: starts the members of a batch and corks the endpoints meanwhile.
#include "rrdma/comm/batch.h"

#include "lib/comm/reactor.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

void BatchBase::begin(Operation& member) {
  ++waiting_;
  member.batch_ = this;
  member.start();
}

void BatchBase::member_done(Operation* member) {
  if (--waiting_ != 0 || !continuation_) return;
  member->continuation_ = continuation_;
  member->reactor_->make_ready(member);
}

void BatchBase::cork(Operation& member) { member.reactor_->cork(); }
void BatchBase::uncork(Operation& member) { member.reactor_->uncork(); }

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
