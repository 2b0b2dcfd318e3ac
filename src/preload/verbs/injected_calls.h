// Calls that fail, take long or report what is not so, on purpose (faults/rule.h). The control path asks inject() while a
// rule is armed. What programs call through pointers (posting, polling) is exchanged for functions that ask, in every open
// context and extended CQ, for as long as such rules are armed: without them the data path is what it is.
#pragma once

#include <infiniband/verbs.h>

#include "faults/table.h"

namespace rrdma::verbs {

struct Context;
struct Cq;
struct Qp;

// 0, or the errno that the call must fail with; errno is set and the fault explained. Waits where the rule says so.
int strike_armed(const char* call, const ibv_context* context);
inline int inject(const char* call, const ibv_context* context) {
  return faults::armed() ? strike_armed(call, context) : 0;
}

// While one lives, no call of its thread fails on purpose: the objects of a context must go with it.
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
// An extended CQ, a QP with builders, that were made while rules are armed.
void note_made(Cq& cq);
void note_made(Qp& qp);

}  // namespace rrdma::verbs
