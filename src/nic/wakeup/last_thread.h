// The end of a program by pthread_exit(): a process ends with its last thread, and the threads of lanes must
// not keep it alive. After the main thread has left by pthread_exit(), a watcher thread checks for threads of
// the program. It calls exit(0) when none is left, as the C library would. Programs whose main thread stays
// pay nothing.
//
// Threads: any.
#pragma once

namespace rrdma::nic {

// Marks the calling thread as a thread of RRDMA: it does not keep the process alive.
class OwnThread {
 public:
  OwnThread();
  ~OwnThread();
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;
};

// Call it in the main thread of each process, also after a fork. In any other thread it does nothing.
void watch_main_thread();

}  // namespace rrdma::nic
