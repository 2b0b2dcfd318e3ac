// Coroutines that await in conditions. GCC 12.1 and 12.2 lay out their frames wrongly; see
// rrdma/comm/awaiting.h.
#pragma once

#include <rrdma/comm/comm.h>

#include <string>
#include <utility>
#include <vector>

// An argument that must live until its condition was evaluated, and not be copied as bytes.
class Text {
 public:
  explicit Text(std::string text) : text_(std::move(text)), self_(this) { ++alive; }
  Text(const Text& other) : text_(other.text_), self_(this) { ++alive; }
  Text& operator=(const Text&) = delete;
  ~Text() {
    if (self_ != this) ++broken;
    --alive;
  }
  [[nodiscard]] const std::string& get() const { return text_; }

  static inline int alive = 0;
  static inline int broken = 0;

 private:
  std::string text_;
  const Text* self_;
};

// Something to await. Each coroutine suspends once, then answers.
class Ask {
 public:
  Ask(rrdma::comm::Context& context, int wanted) : context_(&context), wanted_(wanted) {}
  rrdma::comm::Task<rrdma::comm::Result<int>> is(const Text& text) const;
  rrdma::comm::Task<bool> says(int value) const;
  rrdma::comm::Task<std::vector<int>> all() const;
  [[nodiscard]] rrdma::comm::Context& context() const { return *context_; }

 private:
  rrdma::comm::Context* context_;
  int wanted_;
};

struct Form {
  const char* name;
  rrdma::comm::Task<int> (*run)(const Ask& ask, int value);
  int wanted;  // for the value 1
};
std::vector<Form> forms();
