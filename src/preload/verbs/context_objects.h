// The objects that a program created in a context and has not destroyed. Closing the device destroys them, as
// the kernel does when its last descriptor is closed: objects of a closed context neither send, answer nor
// report.
#pragma once

namespace rrdma::verbs {

struct Context;

// Destroys all objects that are left. Does not wait for acknowledgements of events that the program took,
// because the program can no longer give them.
void destroy_context_objects(Context& context);

}  // namespace rrdma::verbs
