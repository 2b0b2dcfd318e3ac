// Opens a browser if there is a graphical session.
#pragma once

#include <string>

namespace rrdma::tools {

// The address contains the token, so it must not appear in an argument list that all users of the host can
// see. The browser gets a file that only this user can read and that redirects to the address. The destructor
// removes the file.
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
