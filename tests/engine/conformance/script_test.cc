// Scripts can fail: a wrong line, a missing packet and an unexpected one are all detected.
#include "script.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

namespace rrdma::conformance::script_test {

TEST(Script, NoticesAWrongAnswer) {
  EXPECT_NONFATAL_FAILURE(
      {
        Script script;
        script.play("> RDMA WRITE ONLY psn 0 a +8\n< ACKNOWLEDGE psn 0 ack msn 2\n");
      },
      "msn 1");
}

TEST(Script, NoticesAMissingAnswer) {
  EXPECT_NONFATAL_FAILURE(
      {
        Script script;
        script.play("> RDMA WRITE ONLY psn 0 +8\n< ACKNOWLEDGE psn 0 ack msn 1\n");
      },
      "nothing was sent");
}

TEST(Script, NoticesAnUnaskedAnswer) {
  EXPECT_NONFATAL_FAILURE(
      {
        Script script;
        script.play("> RDMA WRITE ONLY psn 0 a +8\n@ 1ms\n");
      },
      "and nobody asked");
  EXPECT_NONFATAL_FAILURE(
      {
        Script script;
        script.play("> RDMA WRITE ONLY psn 0 a +8\n");
      },
      "and nobody asked");
}

TEST(Script, NoticesAnUnaskedCompletionAndEvent) {
  EXPECT_NONFATAL_FAILURE(
      {
        Script script;
        script.play("recv 7 100\n> SEND ONLY psn 0 +8\n");
      },
      "completed '7 success 8'");
  EXPECT_NONFATAL_FAILURE(
      {
        Script script;
        script.play("> RDMA WRITE ONLY psn 0 a key bad +8\n< ACKNOWLEDGE psn 0 nak(2) msn 0\n");
      },
      "told 'access error'");
}

}  // namespace rrdma::conformance::script_test
