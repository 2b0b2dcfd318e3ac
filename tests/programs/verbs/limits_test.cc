// Creates as many objects as ibv_query_device reports, and not one more.
#include <cerrno>
#include <functional>

#include "bench.h"

namespace letter::limits_test {

// With `existing` objects, exactly `max` more can be created. The next gives ENOMEM, and destroying one makes
// room again.
template <typename Object>
void exhaust(const char* what, int max, int existing, const std::function<Object*()>& make,
             const std::function<int(Object*)>& destroy) {
  std::vector<Object*> made;
  for (int i = existing; i < max; ++i) {
    Object* object = make();
    ASSERT_NE(object, nullptr) << what << ": " << i << " of " << max << " could be made, errno " << errno;
    made.push_back(object);
  }
  errno = 0;
  EXPECT_EQ(make(), nullptr) << what << ": one more than " << max;
  EXPECT_EQ(errno, ENOMEM) << what;
  ASSERT_EQ(destroy(made.back()), 0);
  made.back() = make();
  EXPECT_NE(made.back(), nullptr) << what;
  for (Object* object : made) ASSERT_EQ(destroy(object), 0);
}

class Limits : public Bench {
 protected:
  void SetUp() override {
    Bench::SetUp();
    ASSERT_EQ(ibv_query_device(context_, &attr_), 0);
  }
  ibv_device_attr attr_{};
};
class Many : public Limits {};

TEST_F(Limits, ProtectionDomains) {
  exhaust<ibv_pd>(
      "max_pd", attr_.max_pd, 1, [&] { return ibv_alloc_pd(context_); }, ibv_dealloc_pd);
}

TEST_F(Limits, CompletionQueues) {
  exhaust<ibv_cq>(
      "max_cq", attr_.max_cq, 1, [&] { return ibv_create_cq(context_, 1, nullptr, nullptr, 0); },
      ibv_destroy_cq);
}

TEST_F(Limits, SharedReceiveQueues) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  exhaust<ibv_srq>(
      "max_srq", attr_.max_srq, 0, [&] { return ibv_create_srq(pd_, &init); }, ibv_destroy_srq);
}

TEST_F(Many, QueuePairs) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  init.qp_type = IBV_QPT_RC;
  exhaust<ibv_qp>(
      "max_qp", attr_.max_qp, 0, [&] { return ibv_create_qp(pd_, &init); }, ibv_destroy_qp);
}

TEST_F(Many, MemoryRegions) {
  exhaust<ibv_mr>(
      "max_mr", attr_.max_mr, 1, [&] { return ibv_reg_mr(pd_, memory_, 64, int{IBV_ACCESS_LOCAL_WRITE}); },
      ibv_dereg_mr);
}

TEST_F(Many, MemoryWindows) {
  exhaust<ibv_mw>(
      "max_mw", attr_.max_mw, 0, [&] { return ibv_alloc_mw(pd_, IBV_MW_TYPE_2); }, ibv_dealloc_mw);
}

TEST_F(Many, AddressHandles) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  for (int i = 0; i < 4 && attr.grh.dgid.global.interface_id == 0; ++i) {
    ibv_query_gid(context_, 1, i, &attr.grh.dgid);
    attr.grh.sgid_index = static_cast<std::uint8_t>(i);
  }
  exhaust<ibv_ah>(
      "max_ah", attr_.max_ah, 0, [&] { return ibv_create_ah(pd_, &attr); }, ibv_destroy_ah);
}

}  // namespace letter::limits_test
