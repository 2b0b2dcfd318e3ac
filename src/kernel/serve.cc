// Attaches to the device, opens the NIC of its interface, and lets the Server run.
#include "kernel/door/serve.h"

#include <signal.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "kernel/channel.h"
#include "kernel/server.h"
#include "nic/process/runtime.h"

namespace rrdma::kernel {
namespace {

constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 200'000'000};
constexpr rlim_t kDescriptorsWanted = 65536;

void say(const std::string& sentence) {
  std::fprintf(stderr, "rrdmad --kernel: %s\n", sentence.c_str());
  std::fflush(stderr);
}

volatile sig_atomic_t ended = 0;

// The read of the next request returns.
void end_on_signal() {
  struct sigaction action {};
  action.sa_handler = [](int) { ended = 1; };
  for (const int signal : {SIGTERM, SIGINT}) ::sigaction(signal, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kDescriptorsWanted));
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

// Waits for the module, the device, and the end of an earlier daemon.
Result<Channel, Problem> attach_in_time(const std::string& device) {
  for (int said = 0; ended == 0;) {
    auto channel = Channel::attach(device);
    const int error = channel ? 0 : channel.error().error;
    if (error != ENOENT && error != ENODEV && error != EBUSY) return channel;
    if (said != error) say(channel.error().sentence + " Waiting.");
    said = error;
    ::nanosleep(&kPause, nullptr);
  }
  return problem(EINTR, "ended while waiting.");
}

// The NIC of this process is on the device's interface. The kernel's pages are mapped as PFNs, which another
// process cannot reach (process_vm_readv), so that peers access nothing directly.
void choose_settings(const std::string& interface) {
  ::setenv("RRDMA_NETDEV", interface.c_str(), 1);
  ::setenv("RRDMA_DIRECT", "0", 1);
  ::setenv("RRDMA_LANES", "1", 1);
}

}  // namespace

int serve(const std::string& device) {
  end_on_signal();
  raise_descriptor_limit();
  const auto channel = attach_in_time(device);
  if (!channel) {
    say(channel.error().sentence);
    return 1;
  }
  choose_settings(channel->interface());
  nic::Runtime& runtime = nic::Runtime::instance();
  const auto devices = runtime.devices();
  if (!devices || devices->empty()) {
    say("there is no NIC on " + channel->interface() + ".");
    return 1;
  }
  const auto opened = runtime.open(devices->front().name);
  if (!opened) {
    say(opened.error().sentence);
    return 1;
  }
  {
    Server server(*channel, runtime, **opened);
    if (!server.valid()) {
      say("the doorbells of " + device + " cannot be mapped.");
      return 1;
    }
    say("serves " + device + " on " + channel->interface() + ".");
    server.run();
  }
  runtime.close(*opened);
  say(device + (ended != 0 ? ": told to end." : " is gone."));
  return 0;
}

}  // namespace rrdma::kernel
