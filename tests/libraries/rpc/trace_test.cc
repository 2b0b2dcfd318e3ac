// TraceContext: the examples and the rules of the W3C recommendation "Trace Context".
#include "rrdma/rpc/trace.h"

#include <gtest/gtest.h>

namespace rpc_test::trace_test {

using rrdma::rpc::Metadata;
using rrdma::rpc::TraceContext;

constexpr const char* kExample = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(Trace, ParsesAndPrints) {
  const auto parsed = TraceContext::parse(kExample);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->text(), kExample);
  EXPECT_TRUE(parsed->sampled());
  EXPECT_EQ(parsed->trace[0], 0x0a);
  EXPECT_EQ(parsed->span[7], 0x31);
}

TEST(Trace, RefusesWhatIsInvalid) {
  const std::string good = kExample;
  for (const std::string& bad :
       {std::string(), good.substr(1), good + "0", good + "-00", "ff" + good.substr(2),
        std::string("00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        std::string("00-00000000000000000000000000000000-b7ad6b7169203331-01"),
        std::string("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"),
        std::string("00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}) {
    EXPECT_FALSE(TraceContext::parse(bad).has_value()) << bad;
  }
  // A later version may say more.
  EXPECT_TRUE(TraceContext::parse("01" + good.substr(2) + "-more").has_value());
  EXPECT_FALSE(TraceContext::parse("01" + good.substr(2) + "more").has_value());
}

TEST(Trace, ChildrenStayInTheTrace) {
  const TraceContext first = TraceContext::fresh();
  const TraceContext second = first.child();
  EXPECT_EQ(first.trace, second.trace);
  EXPECT_NE(first.span, second.span);
  EXPECT_NE(TraceContext::fresh().trace, first.trace);
  EXPECT_FALSE(TraceContext::fresh(false).sampled());
  Metadata metadata;
  EXPECT_FALSE(TraceContext::of(metadata).has_value());
  metadata.add(rrdma::rpc::kTraceParent, second.text());
  EXPECT_EQ(TraceContext::of(metadata), second);
}

}  // namespace rpc_test::trace_test
