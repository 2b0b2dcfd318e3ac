// Objects that are already destroyed, damaged, copied, or of another context: the call is refused without
// effect.
#include <cerrno>
#include <cstring>
#include <functional>

#include "bench.h"

namespace letter::objects_test {

class Objects : public Bench {
 protected:
  void SetUp() override {
    Bench::SetUp();
    other_context_ = open_device();
    ASSERT_NE(other_context_, nullptr);
    other_pd_ = ibv_alloc_pd(other_context_);
    other_cq_ = ibv_create_cq(other_context_, 8, nullptr, nullptr, 0);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_close_device(other_context_), 0);
    Bench::TearDown();
  }
  ibv_srq* create_srq(ibv_pd* pd) {
    ibv_srq_init_attr init{};
    init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
    return ibv_create_srq(pd, &init);
  }
  ibv_ah* create_ah() {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    for (int i = 0; i < 4 && attr.grh.dgid.global.interface_id == 0; ++i) {
      ibv_query_gid(context_, 1, i, &attr.grh.dgid);
      attr.grh.sgid_index = static_cast<std::uint8_t>(i);
    }
    return ibv_create_ah(pd_, &attr);
  }

  ibv_context* other_context_ = nullptr;
  ibv_pd* other_pd_ = nullptr;
  ibv_cq* other_cq_ = nullptr;
};

void expect_refused(int error, const char* what) {
  // Exact, because the kernel's look-up of handles returns this on every device.
  EXPECT_EQ(error, ENOENT) << what << ": " << strerror(error);
}

// Damages the object in each way and expects that the call is refused. Then the call on the intact object
// must work, and be refused when repeated.
template <typename Object>
void try_all(Object* object, ibv_context* other, const char* what, const std::function<int(Object*)>& destroy,
             const std::function<int(Object*)>& use = {}) {
  ASSERT_NE(object, nullptr) << what;
  Object copy = *object;
  const auto refused = [&](Object* which, const std::string& how) {
    expect_refused(destroy(which), (std::string(what) + ", " + how).c_str());
    if (use) expect_refused(use(which), (std::string("using ") + what + ", " + how).c_str());
  };
  if constexpr (requires { object->handle; }) {
    object->handle ^= 0x55555555;
    refused(object, "handle damaged");
    object->handle = copy.handle;
  }
  object->context = other;
  refused(object, "context of another device");
  object->context = copy.context;
  refused(&copy, "a copy");
  if (use) {
    EXPECT_EQ(use(object), 0) << what;
  }
  ASSERT_EQ(destroy(object), 0) << what;
  refused(object, "destroyed");
  refused(object, "destroyed, again");
}

TEST_F(Objects, AreDestroyedOnceAndWhole) {
  try_all<ibv_pd>(ibv_alloc_pd(context_), other_context_, "PD", ibv_dealloc_pd);
  try_all<ibv_mr>(ibv_reg_mr(pd_, memory_, 64, int{IBV_ACCESS_LOCAL_WRITE}), other_context_, "MR",
                  ibv_dereg_mr);
  try_all<ibv_cq>(ibv_create_cq(context_, 8, nullptr, nullptr, 0), other_context_, "CQ", ibv_destroy_cq,
                  [](ibv_cq* cq) { return ibv_resize_cq(cq, 16); });
  try_all<ibv_comp_channel>(ibv_create_comp_channel(context_), other_context_, "channel",
                            ibv_destroy_comp_channel);
  try_all<ibv_ah>(create_ah(), other_context_, "AH", ibv_destroy_ah);
  try_all<ibv_srq>(create_srq(pd_), other_context_, "SRQ", ibv_destroy_srq, [](ibv_srq* srq) {
    ibv_srq_attr attr{};
    if (const int error = ibv_query_srq(srq, &attr); error != 0) return error;
    attr.srq_limit = 1;
    return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
  });
  try_all<ibv_qp>(create_qp(pd_), other_context_, "QP", ibv_destroy_qp, [](ibv_qp* qp) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    if (const int error = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init); error != 0) return error;
    attr = {};
    attr.qp_state = IBV_QPS_RESET;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
  });
}

// The system's library crashes. qperf destroys its QP twice through rdma_destroy_qp(), which sets it to null.
TEST_F(Objects, ThatAreNull) {
  EXPECT_EQ(ibv_destroy_qp(nullptr), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(nullptr), EINVAL);
  EXPECT_EQ(ibv_destroy_srq(nullptr), EINVAL);
  EXPECT_EQ(ibv_destroy_ah(nullptr), EINVAL);
  EXPECT_EQ(ibv_destroy_comp_channel(nullptr), EINVAL);
  EXPECT_EQ(ibv_dereg_mr(nullptr), EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(nullptr), EINVAL);
}

// These are inline functions of verbs.h that go through the object's context.
TEST_F(Objects, ThatGoThroughTheirContext) {
  const auto damage_handle = [](auto* object, auto destroy, const char* what) {
    ASSERT_NE(object, nullptr) << what;
    object->handle ^= 0x55555555;
    expect_refused(destroy(object), what);
    object->handle ^= 0x55555555;
    EXPECT_EQ(destroy(object), 0) << what;
    expect_refused(destroy(object), what);
  };
  damage_handle(ibv_alloc_mw(pd_, IBV_MW_TYPE_2), ibv_dealloc_mw, "MW");
  ibv_alloc_dm_attr dm{};
  dm.length = 4096;
  damage_handle(ibv_alloc_dm(context_, &dm), ibv_free_dm, "DM");
  ibv_td_init_attr td_attr{};
  ibv_td* td = ibv_alloc_td(context_, &td_attr);
  ASSERT_NE(td, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  expect_refused(ibv_dealloc_td(td), "TD");
}

TEST_F(Objects, MakeNothingWithADomainThatIsNot) {
  ibv_pd* gone = ibv_alloc_pd(context_);
  ASSERT_EQ(ibv_dealloc_pd(gone), 0);
  ibv_pd copy = *pd_;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  init.qp_type = IBV_QPT_RC;
  for (ibv_pd* pd : {gone, &copy}) {
    const auto refused = [&](const void* made, const char* what) {
      EXPECT_EQ(made, nullptr) << what;
      expect_refused(errno, what);
    };
    refused(ibv_create_qp(pd, &init), "ibv_create_qp");
    refused(ibv_reg_mr(pd, memory_, 64, int{IBV_ACCESS_LOCAL_WRITE}), "ibv_reg_mr");
    refused(ibv_alloc_mw(pd, IBV_MW_TYPE_1), "ibv_alloc_mw");
    refused(create_srq(pd), "ibv_create_srq");
    ibv_ah_attr attr{};
    refused(ibv_create_ah(pd, &attr), "ibv_create_ah");
  }
}

TEST_F(Objects, AQpIsMadeOfWhatIsAliveInItsContext) {
  const auto attempt = [&](ibv_cq* send_cq, ibv_cq* recv_cq, ibv_srq* srq) {
    ibv_qp_init_attr init{};
    init.send_cq = send_cq;
    init.recv_cq = recv_cq;
    init.srq = srq;
    init.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
    init.qp_type = IBV_QPT_RC;
    errno = 0;
    ibv_qp* qp = ibv_create_qp(pd_, &init);
    if (qp == nullptr) return errno;
    ibv_destroy_qp(qp);
    return 0;
  };
  EXPECT_EQ(attempt(cq_, cq_, nullptr), 0);
  ibv_cq* gone = ibv_create_cq(context_, 8, nullptr, nullptr, 0);
  ASSERT_EQ(ibv_destroy_cq(gone), 0);
  expect_refused(attempt(gone, cq_, nullptr), "send_cq destroyed");
  expect_refused(attempt(cq_, gone, nullptr), "recv_cq destroyed");
  expect_refused(attempt(other_cq_, cq_, nullptr), "send_cq of another context");
  expect_refused(attempt(cq_, other_cq_, nullptr), "recv_cq of another context");
  ibv_srq* other_srq = create_srq(other_pd_);
  expect_refused(attempt(cq_, cq_, other_srq), "SRQ of another context");
  ibv_srq* srq = create_srq(pd_);
  EXPECT_EQ(attempt(cq_, cq_, srq), 0);
  ASSERT_EQ(ibv_destroy_srq(srq), 0);
  expect_refused(attempt(cq_, cq_, srq), "SRQ destroyed");
  cq_->handle ^= 0x5555;
  expect_refused(attempt(cq_, cq_, nullptr), "CQ damaged");
  cq_->handle ^= 0x5555;
}

TEST_F(Objects, GoWithTheirContextWhateverBecameOfThem) {
  ibv_context* context = open_device();
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
  pd->handle ^= 0x5555;
  cq->handle ^= 0x5555;
  ASSERT_EQ(ibv_close_device(context), 0);
  expect_refused(ibv_dealloc_pd(pd), "PD of a closed device");
  expect_refused(ibv_destroy_cq(cq), "CQ of a closed device");
  errno = 0;
  EXPECT_EQ(ibv_alloc_pd(context), nullptr);
  expect_refused(errno, "a closed context");
  EXPECT_NE(ibv_close_device(context), 0);
}

}  // namespace letter::objects_test
