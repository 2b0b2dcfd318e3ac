// Limits: exceeding one gives an errno and an error text, and never ends the program.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cases.h"
#include "talk.h"
#include "verdict.h"

namespace guest {
namespace {

struct Outcome {
  int error = 0;     // errno; 0: it worked
  std::string said;  // on stderr
};

std::string read_whole(int fd) {
  std::string text;
  char part[512];
  for (ssize_t n = 0; (n = ::read(fd, part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(n));
  return text;
}

// Opens and closes the first device under a limit, in a child.
Outcome open_under(int resource, rlim_t limit) {
  int ends[2];
  if (::pipe(ends) != 0) proof::fail_errno("pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    const rlimit wanted{limit, limit};
    if (::setrlimit(static_cast<__rlimit_resource>(resource), &wanted) != 0) ::_exit(255);
    errno = 0;
    ibv_device** list = ibv_get_device_list(nullptr);
    if (list == nullptr || list[0] == nullptr) ::_exit(errno != 0 ? errno : ENODEV);
    ibv_context* context = ibv_open_device(list[0]);
    if (context == nullptr) ::_exit(errno != 0 ? errno : 254);
    ibv_pd* pd = ibv_alloc_pd(context);
    if (pd == nullptr) ::_exit(errno != 0 ? errno : 253);
    ibv_dealloc_pd(pd);
    ::_exit(ibv_close_device(context) == 0 ? 0 : 252);
  }
  ::close(ends[1]);
  Outcome outcome{.said = read_whole(ends[0])};
  ::close(ends[0]);
  int status = 0;
  if (::waitpid(child, &status, 0) != child) proof::fail_errno("waitpid");
  if (!WIFEXITED(status))
    proof::fail("limit " + std::to_string(limit) + ": ended by " + ::strsignal(WTERMSIG(status)));
  outcome.error = WEXITSTATUS(status);
  if (outcome.error >= 252) proof::fail("limit " + std::to_string(limit) + ": failed without errno");
  return outcome;
}

// The call either succeeds silently, or sets errno and prints one sentence with the reason and the remedy.
void few_descriptors() {
  ::setenv("RRDMA_LOG", "error", 1);
  { Talk warm; }  // starts the daemon
  int enough = -1;
  for (rlim_t limit = 0; limit <= 64; ++limit) {
    const auto [error, said] = open_under(RLIMIT_NOFILE, limit);
    const std::string here = "limit " + std::to_string(limit) + ": ";
    if (error == 0 && enough < 0) enough = static_cast<int>(limit);
    if (error == 0 && !said.empty()) proof::fail(here + "works, and says " + said);
    if (error == 0) continue;
    if (enough >= 0) proof::fail(here + "not enough, though " + std::to_string(enough) + " was");
    if (error != EMFILE) proof::fail(here + std::strerror(error) + " instead of EMFILE");
    const bool one_line = std::count(said.begin(), said.end(), '\n') == 1;
    if (!one_line || said.find("ulimit -n") == std::string::npos)
      proof::fail(here + "instead of one sentence: '" + said + "'");
  }
  if (enough < 0) proof::fail("64 descriptors are not enough");
  proof::say("enough descriptors: " + std::to_string(enough));
}

void no_locked_memory() {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_MEMLOCK, &none);
  Talk talk;
  talk.exchange(10);
}

void little_address_space() {
  { Talk warm; }
  int worked = 0;
  for (rlim_t mebibytes = 32; mebibytes <= 2048; mebibytes *= 2)
    worked += open_under(RLIMIT_AS, mebibytes << 20).error == 0;
  if (worked == 0) proof::fail("2 GiB of addresses are not enough");
}

// The limit applies in a child, because the output of this process goes into a file, too.
void no_file_may_grow() {
  { Talk warm; }
  const int error = open_under(RLIMIT_FSIZE, 0).error;
  if (error != 0 && error != EFBIG) proof::fail(std::string("no file may grow: ") + std::strerror(error));
}

// The harness has filled the runtime directory; the first explained error writes there.
void full_disk() {
  Talk talk;
  for (int i = 0; i < 100; ++i) {
    ibv_qp_attr nonsense{};
    nonsense.qp_state = IBV_QPS_RTR;
    if (ibv_modify_qp(talk.qp(), &nonsense, IBV_QP_STATE | IBV_QP_ALT_PATH) == 0)
      proof::fail("nonsense was accepted");
  }
  talk.exchange();
}

// No thread can be started.
void one_process_too_many() {
  { Talk warm; }
  const int error = open_under(RLIMIT_NPROC, 0).error;
  if (error != 0 && error != EAGAIN) proof::fail(std::string("no thread: ") + std::strerror(error));
  Talk later;
  later.exchange();
}

void fail_a_request() {
  Talk talk;
  std::uint8_t* memory = proof::map_memory(4096);
  ibv_mr* region = talk.device().register_memory(memory, 4096);
  ::munmap(memory, 4096);
  if (talk.write_from(*region, 4096) == IBV_WC_SUCCESS) proof::fail("memory that is gone was sent");
  ibv_dereg_mr(region);
}

// The text about a failed request goes to a pipe without a reader, then to a file that may not grow. Neither
// SIGPIPE nor SIGXFSZ may reach the program.
void nobody_reads_what_we_say() {
  const int before = ::dup(STDERR_FILENO);
  int ends[2];
  if (::pipe(ends) != 0) proof::fail_errno("pipe");
  ::dup2(ends[1], STDERR_FILENO);
  ::close(ends[0]);
  ::close(ends[1]);
  fail_a_request();
  const int file = ::memfd_create("said", MFD_CLOEXEC);
  ::dup2(file, STDERR_FILENO);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  Talk open;  // makes its mappings before the limit applies
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &none);
  fail_a_request();
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::dup2(before, STDERR_FILENO);
}

constexpr Case kCases[] = {
    {"few_descriptors", few_descriptors},
    {"no_locked_memory", no_locked_memory},
    {"little_address_space", little_address_space},
    {"no_file_may_grow", no_file_may_grow},
    {"full_disk", full_disk},
    {"one_process_too_many", one_process_too_many},
    {"nobody_reads_what_we_say", nobody_reads_what_we_say},
};

}  // namespace

std::span<const Case> limit_cases() { return kCases; }

}  // namespace guest
