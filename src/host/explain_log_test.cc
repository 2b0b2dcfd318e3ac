#include "host/explain_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>

namespace rrdma::host::explain_log_test {

// The log of this process, in its own directory.
class ExplainLogTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "rrdma_explain_" + std::to_string(::getpid());
    ::mkdir(folder_.c_str(), 0700);
    ::setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    const std::string file = folder_ + "/rrdma/explain." + std::to_string(::getpid());
    std::remove(file.c_str());
    ::rmdir((folder_ + "/rrdma").c_str());
    ::rmdir(folder_.c_str());
  }
  static ExplainedProcess read() { return read_explained(static_cast<std::uint32_t>(::getpid())); }
  static ExplainFacts failure(std::uint32_t qpn, std::uint8_t status = 12) {
    ExplainFacts facts;
    facts.kind = ExplainFacts::kSend;
    facts.status = status;
    facts.qpn = qpn;
    return facts;
  }
  std::string folder_;
};

TEST_F(ExplainLogTest, NamesTheProcess) {
  ExplainLog log;
  const ExplainedProcess process = read();
  EXPECT_EQ(process.program, program_invocation_short_name);
  EXPECT_EQ(process.net_namespace, net_namespace_of_this_process());
  EXPECT_NE(process.net_namespace, 0u);
  EXPECT_TRUE(process.running);
  EXPECT_TRUE(process.sentences.empty());
  EXPECT_EQ(explained_pids(), std::vector{static_cast<std::uint32_t>(::getpid())});
}

TEST_F(ExplainLogTest, AFolderOfAnotherUserIsNotUsed) {
  const std::string own = explain_directory();
  ASSERT_FALSE(own.empty());
  constexpr uid_t kStranger = 54321;
  if (::chown(own.c_str(), kStranger, kStranger) != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(explain_directory(), "");
  EXPECT_EQ(::rmdir(own.c_str()), 0);
  const std::string other = folder_ + "/other";
  EXPECT_EQ(::mkdir(other.c_str(), 0700), 0);
  EXPECT_EQ(::symlink(other.c_str(), own.c_str()), 0);
  EXPECT_EQ(explain_directory(), "") << "a link";
  EXPECT_EQ(::unlink(own.c_str()), 0);
  EXPECT_EQ(::rmdir(other.c_str()), 0);
}

// A process with the same PID in another PID namespace keeps the file that it has mapped.
TEST_F(ExplainLogTest, WhoComesLaterTakesAFileOfItsOwn) {
  const std::string file = folder_ + "/rrdma/explain." + std::to_string(::getpid());
  const ExplainLog first;
  const int earlier = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(earlier, 0);
  const ExplainLog second;
  struct stat before {};
  struct stat after {};
  ASSERT_EQ(::fstat(earlier, &before), 0);
  ASSERT_EQ(::stat(file.c_str(), &after), 0);
  EXPECT_NE(before.st_ino, after.st_ino);
  EXPECT_EQ(before.st_size, static_cast<off_t>(sizeof(ExplainFile)));
  std::uint32_t magic = 0;
  EXPECT_EQ(::pread(earlier, &magic, sizeof magic, 0), static_cast<ssize_t>(sizeof magic));
  EXPECT_EQ(magic, kExplainMagic);
  ::close(earlier);
}

TEST_F(ExplainLogTest, ErrorsComeFirstAndTheNewestOfEach) {
  ExplainLog log;
  log.append(Severity::kInfo, "a", "first info.");
  log.append(Severity::kError, "b", "first error.");
  log.append(Severity::kDebug, "c", "a note.");
  log.append(Severity::kInfo, "d", "second info.");
  log.append(Severity::kError, "e", "second error.");
  std::string order;
  for (const Explained& said : read().sentences) order += said.call;
  EXPECT_EQ(order, "ebdac");
}

TEST_F(ExplainLogTest, WhatIsSaidAgainIsCounted) {
  ExplainLog log;
  for (std::uint32_t i = 1; i <= 1000; ++i)
    EXPECT_EQ(log.append(Severity::kInfo, "call", "the same.").times, i);
  log.append(Severity::kInfo, "call", "something else.");
  log.append(Severity::kInfo, "another", "the same.");
  const auto sentences = read().sentences;
  ASSERT_EQ(sentences.size(), 3u);
  EXPECT_EQ(sentences[2].times, 1000u);
  EXPECT_GE(sentences[2].last_ns, sentences[2].first_ns);
  EXPECT_EQ(sentences[0].times, 1u);
}

TEST_F(ExplainLogTest, ASentenceThatDoesNotFitIsCutAndStillCounted) {
  ExplainLog log;
  const std::string text(3000, 'x');
  EXPECT_EQ(log.append(Severity::kInfo, "call", text).times, 1u);
  EXPECT_EQ(log.append(Severity::kInfo, "call", text).times, 2u);
  EXPECT_EQ(read().sentences[0].sentence.size(), sizeof(ExplainRecord::sentence) - 1);
}

TEST_F(ExplainLogTest, InfosPushNoErrorOut) {
  ExplainLog log;
  log.append(Severity::kError, "b", "an error.");
  for (int i = 0; i < 1000; ++i) log.append(Severity::kInfo, "a", std::to_string(i));
  const auto sentences = read().sentences;
  ASSERT_EQ(sentences.size(), 1 + kExplainRecords[1]);
  EXPECT_EQ(sentences[0].sentence, "an error.");
  EXPECT_EQ(sentences[1].sentence, "999");
}

TEST_F(ExplainLogTest, FailuresOfManyQueuePairsAtOnceAreOne) {
  ExplainLog log;
  for (std::uint32_t qpn = 0; qpn < 100; ++qpn) {
    const ExplainFacts facts = failure(qpn);
    log.append(Severity::kError, "ibv_post_send", "QP " + std::to_string(qpn) + " failed.", &facts);
  }
  const ExplainFacts other = failure(7, 13);
  log.append(Severity::kError, "ibv_post_send", "QP 7 failed otherwise.", &other);
  const auto sentences = read().sentences;
  ASSERT_EQ(sentences.size(), 2u);
  EXPECT_EQ(sentences[0].facts.status, 13);
  EXPECT_EQ(sentences[1].times, 100u);
  EXPECT_EQ(sentences[1].facts.qpn, 0u);
}

TEST_F(ExplainLogTest, FlushesAreCountedWhereTheFailureIs) {
  ExplainLog log;
  const ExplainFacts facts = failure(1);
  const ExplainHandle handle = log.append(Severity::kError, "ibv_post_send", "failed.", &facts).handle;
  log.add_flushed(handle, 3, 0);
  log.add_flushed(handle, 0, 16);
  log.add_flushed(0, 99, 99);
  EXPECT_EQ(read().sentences[0].facts.flushed_sends, 3u);
  EXPECT_EQ(read().sentences[0].facts.flushed_receives, 16u);
  // After its record is reused, no other record gets its count.
  for (int i = 0; i < 100; ++i) log.append(Severity::kError, "e", std::to_string(i));
  log.add_flushed(handle, 5, 5);
  for (const Explained& said : read().sentences) EXPECT_EQ(said.facts.flushed_sends, 0u);
}

TEST_F(ExplainLogTest, ACallThatSucceedsLaterIsForgiven) {
  ExplainLog log;
  log.append(Severity::kInfo, "ibv_create_qp", "too much.");
  log.append(Severity::kInfo, "ibv_create_cq", "too much.");
  log.forgive("ibv_create_qp");
  auto sentences = read().sentences;
  EXPECT_EQ(sentences[0].call, "ibv_create_cq");
  EXPECT_EQ(sentences[1].severity, Severity::kDebug);
  // A new refusal restores the severity.
  log.append(Severity::kInfo, "ibv_create_qp", "too much.");
  sentences = read().sentences;
  EXPECT_EQ(sentences[0].severity, Severity::kInfo);
  EXPECT_EQ(sentences[0].times, 2u);
}

TEST_F(ExplainLogTest, ThreadsLoseNothing) {
  ExplainLog log;
  constexpr int kTimes = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log, t] {
      for (int i = 0; i < kTimes; ++i) log.append(Severity::kInfo, "call", std::to_string(t));
    });
  }
  for (auto& thread : threads) thread.join();
  const auto sentences = read().sentences;
  ASSERT_EQ(sentences.size(), 4u);
  for (const Explained& said : sentences) EXPECT_EQ(said.times, static_cast<std::uint32_t>(kTimes));
}

// If no file can be created, an error is printed to stderr, unless RRDMA_LOG is empty.
TEST_F(ExplainLogTest, WhatCannotBeKeptIsPrinted) {
  const auto said_by_child = [](const char* wanted) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends[1], STDERR_FILENO);
      wanted == nullptr ? ::unsetenv("RRDMA_LOG") : ::setenv("RRDMA_LOG", wanted, 1);
      const rlimit none{0, 0};
      ::setrlimit(RLIMIT_NOFILE, &none);
      explain(Severity::kInfo, "a", "an info.");
      explain(Severity::kError, "b", "an error.");
      ::_exit(0);
    }
    ::close(ends[1]);
    char text[256] = {};
    const ssize_t octets = ::read(ends[0], text, sizeof text);
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return std::string(text, octets > 0 ? static_cast<std::size_t>(octets) : 0);
  };
  const std::string said = said_by_child(nullptr);
  EXPECT_NE(said.find("b: an error."), std::string::npos) << said;
  EXPECT_EQ(said.find("info"), std::string::npos) << said;
  EXPECT_EQ(said_by_child(""), "");
}

}  // namespace rrdma::host::explain_log_test
