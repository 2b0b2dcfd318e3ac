// The ways in which a program can end, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace endings {

// All names that leave() knows.
[[nodiscard]] const std::vector<std::string>& ways();
// Installs the signal handlers of a way. Call it before the program opens a device.
void prepare_to_leave(std::string_view way);
// Ends the process in this way. Returns for "fork" and "dlclose" only: after those the program goes on.
// "pthread_exit" ends the calling thread.
void leave(std::string_view way);

}  // namespace endings
