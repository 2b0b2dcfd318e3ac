// MADs of the kernel's connection manager: only root claims them, the latest claimant gets those of no
// program, and sends only from this host.
#include "daemon/qp1/kernel_mads.h"

#include "control/verbatim_mads.h"
#include "daemon/test_surroundings.h"

namespace rrdma::daemon::kernel_mads_test {

const wire::Gid kHere = wire::gid_of_ipv4({127, 0, 0, 1});
const wire::Gid kElsewhere = wire::gid_of_ipv4({10, 9, 8, 7});

// A message for a connection that no program has.
wire::MadBuffer mad_of_nobody(std::uint32_t id) {
  return wire::emit_cm_mad({.transaction_id = id, .message = wire::CmDreq{.remote_comm_id = {id}}});
}

struct Arrivals final : RecordedEvents {
  std::vector<control::MadArrived> mads;
  void handle_other(control::Received& message) override {
    if (const auto mad = message.as<control::MadArrived>()) mads.push_back(*mad);
  }
};

int claim(control::DaemonClient& client) {
  const auto claimed = client.request<control::Done>(control::ClaimMads{});
  return claimed ? 0 : claimed.error().error;
}

int send(control::DaemonClient& client, const wire::Gid& local, std::uint32_t id) {
  const auto sent = client.request<control::Done>(
      control::SendMad{.local = local, .remote = kHere, .octets = mad_of_nobody(id)});
  return sent ? 0 : sent.error().error;
}

TEST(KernelMads, OnlyRootClaimsThem) {
  in_own_network([] {
    const auto client = open_client();
    EXPECT_EQ(claim(*client), EPERM);
    EXPECT_EQ(send(*client, kHere, 1), EPERM);
  });
}

TEST(KernelMads, TheLatestClaimantGetsTheMadsOfNoProgram) {
  in_own_network(
      [] {
        const auto first = open_client(), second = open_client();
        ASSERT_EQ(claim(*first), 0);
        EXPECT_EQ(send(*second, kHere, 1), EPERM) << "a program that claimed nothing";
        EXPECT_EQ(send(*first, kElsewhere, 2), EPERM) << "an address of another host";
        ASSERT_EQ(send(*first, kHere, 3), 0);
        Arrivals to_first, to_second;
        ASSERT_TRUE(handle_until(*first, to_first, [&] { return !to_first.mads.empty(); }));
        EXPECT_EQ(to_first.mads[0].octets, mad_of_nobody(3));
        EXPECT_EQ(to_first.mads[0].local, kHere);
        EXPECT_EQ(to_first.mads[0].remote, kHere);

        ASSERT_EQ(claim(*second), 0);
        EXPECT_EQ(send(*first, kHere, 4), EPERM) << "another one claims them now";
        ASSERT_EQ(send(*second, kHere, 5), 0);
        ASSERT_TRUE(handle_until(*second, to_second, [&] { return !to_second.mads.empty(); }));
        EXPECT_EQ(to_second.mads[0].octets, mad_of_nobody(5));
        EXPECT_EQ(to_first.mads.size(), 1u);
      },
      Privilege::kRoot);
}

TEST(KernelMads, AProcessThatGaveUpRootSendsNothing) {
  in_own_network(
      [] {
        Program server([] {
          const auto client = open_client();
          ASSERT_EQ(claim(*client), 0);
          ASSERT_EQ(send(*client, kHere, 1), 0);
          become(kNobody);
          EXPECT_EQ(send(*client, kHere, 2), EPERM);
        });
        EXPECT_TRUE(server.succeeded());
      },
      Privilege::kRoot);
}

TEST(KernelMads, AClaimEndsWithItsProgram) {
  in_own_network(
      [] {
        const auto stays = open_client();
        {
          const auto goes = open_client();
          ASSERT_EQ(claim(*goes), 0);
        }
        EXPECT_EQ(send(*stays, kHere, 1), EPERM);
        ASSERT_EQ(claim(*stays), 0);
        ASSERT_EQ(send(*stays, kHere, 2), 0);
        Arrivals events;
        EXPECT_TRUE(handle_until(*stays, events, [&] { return !events.mads.empty(); }));
      },
      Privilege::kRoot);
}

}  // namespace rrdma::daemon::kernel_mads_test
