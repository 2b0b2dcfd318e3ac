// Fault injection into calls: they fail, take long or return wrong results (faults/rule.h). The control path
// calls inject() while a rule is armed. Functions that programs call through pointers (posting, polling) are
// replaced in every open context and extended CQ while such rules are armed. Without rules the data path is
// unchanged.
#pragma once

#include <infiniband/verbs.h>

#include "faults/table.h"

namespace rrdma::verbs {

struct Context;
struct Cq;
struct Qp;

// Returns 0, or the errno that the call must fail with; then errno is set and the fault explained. Waits if
// the rule says so.
int strike_armed(const char* call, const ibv_context* context);
inline int inject(const char* call, const ibv_context* context) {
  return faults::armed() ? strike_armed(call, context) : 0;
}

// During its lifetime, no fault is injected into calls of its thread: closing a context must destroy its
// objects.
class NoInjection {
 public:
  NoInjection();
  ~NoInjection();
  NoInjection(const NoInjection&) = delete;
  NoInjection& operator=(const NoInjection&) = delete;
};

// A context from its opening to its end.
void note_opened(Context& context);
void note_closed(Context& context);
// For an extended CQ, or a QP with builders, that is created while rules are armed.
void note_made(Cq& cq);
void note_made(Qp& qp);

}  // namespace rrdma::verbs
