#include "inspect/browser.h"

#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

extern char** environ;

namespace rrdma::tools {
namespace {

bool has_display() { return std::getenv("DISPLAY") != nullptr || std::getenv("WAYLAND_DISPLAY") != nullptr; }

// Returns the name of the file. Empty if it could not be written.
std::string write_redirection(const std::string& address) {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::string name = std::string(runtime != nullptr ? runtime : "/tmp") + "/rrdma-inspect-XXXXXX.html";
  constexpr int kSuffixLength = 5;
  const int descriptor = mkstemps(name.data(), kSuffixLength);  // mode 0600
  if (descriptor < 0) return "";
  const std::string text =
      "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0;url=" + address +
      "\"><title>rrdma inspect</title>\n";
  const bool whole = write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(descriptor);
  if (whole) return name;
  unlink(name.c_str());
  return "";
}

}  // namespace

BrowserVisit::BrowserVisit(const std::string& address) {
  if (!has_display()) return;
  file_ = write_redirection(address);
  if (file_.empty()) return;
  std::string opener = "xdg-open";
  char* arguments[] = {opener.data(), file_.data(), nullptr};
  pid_t child = -1;
  if (posix_spawnp(&child, opener.c_str(), nullptr, nullptr, arguments, environ) != 0) {
    unlink(file_.c_str());
    file_.clear();
  }
}

BrowserVisit::~BrowserVisit() {
  if (!file_.empty()) unlink(file_.c_str());
}

}  // namespace rrdma::tools
