// refuse_calls: runs a program under a seccomp filter that returns EPERM for families of system calls, as
// container runtimes do: refuse_calls io_uring,process_vm PROGRAM ARGS...
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

const std::map<std::string, std::vector<unsigned>> kFamilies = {
    {"io_uring", {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register}},
    {"process_vm", {SYS_process_vm_readv, SYS_process_vm_writev}},
};

std::vector<unsigned> calls_of(const std::string& list) {
  std::vector<unsigned> calls;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    const auto family = kFamilies.find(name);
    if (family == kFamilies.end()) {
      std::fprintf(stderr, "refuse_calls: no family %s\n", name.c_str());
      ::_exit(2);
    }
    calls.insert(calls.end(), family->second.begin(), family->second.end());
  }
  return calls;
}

bool install(const std::vector<unsigned>& calls) {
  std::vector<sock_filter> program;
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const unsigned call : calls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: refuse_calls FAMILY,... PROGRAM ARGS...\n");
    return 2;
  }
  if (!install(calls_of(argv[1]))) {
    std::perror("refuse_calls: seccomp");
    return 2;
  }
  ::execvp(argv[2], argv + 2);
  std::perror(argv[2]);
  return 127;
}
