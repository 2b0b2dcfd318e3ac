// Opens a browser where somebody sits in front of one.
#pragma once

#include <string>

namespace rrdma::tools {

// The address holds the token, so it does not become an argument that everybody on the host can see: the browser
// is given a file that only this user reads and that leads to the address. Gone with this value.
class BrowserVisit {
 public:
  explicit BrowserVisit(const std::string& address);
  ~BrowserVisit();
  BrowserVisit(const BrowserVisit&) = delete;
  BrowserVisit& operator=(const BrowserVisit&) = delete;

  [[nodiscard]] bool opened() const { return !file_.empty(); }

 private:
  std::string file_;
};

}  // namespace rrdma::tools
