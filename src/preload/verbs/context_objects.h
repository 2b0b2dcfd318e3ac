// Context objects: the objects that a program created in a context and has not destroyed. Closing the device destroys it, as
// the kernel does when its last descriptor goes: nothing of a closed context sends, answers or reports.
#pragma once

namespace rrdma::verbs {

struct Context;

// Destroys all that is left. Does not wait for acknowledgements of events that the program took: nobody can
// give them any more.
void destroy_context_objects(Context& context);

}  // namespace rrdma::verbs
