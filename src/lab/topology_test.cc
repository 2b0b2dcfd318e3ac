#include "lab/topology.h"

#include <gtest/gtest.h>

namespace rrdma::tools::topology_test {

Topology preset(const char* name, std::uint32_t hosts) {
  auto made = make_preset(name, {.hosts = hosts}, {});
  EXPECT_TRUE(made.ok());
  return *made;
}

std::size_t link_of(const Topology& topology, const char* a, const char* b) {
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    const LabLink& link = topology.links[i];
    if (topology.nodes[link.a].name == a && topology.nodes[link.b].name == b) return i;
  }
  ADD_FAILURE() << a << " and " << b;
  return 0;
}

TEST(Topology, PresetsHaveTheirHostsAndLinks) {
  EXPECT_EQ(preset("star", 4).links.size(), 4u);
  EXPECT_EQ(preset("ring", 4).links.size(), 8u);
  EXPECT_EQ(preset("ring", 2).links.size(), 3u);
  EXPECT_EQ(preset("dumbbell", 4).links.size(), 5u);
  EXPECT_EQ(preset("leaf-spine", 8).links.size(), 8u + 2 * 2);
  EXPECT_FALSE(make_preset("torus", {}, {}).ok());
  EXPECT_FALSE(make_preset("star", {.hosts = 65}, {}).ok());
}

TEST(Topology, AWaySpreadsOverAllSpines) {
  const Topology lab = preset("leaf-spine", 8);
  const std::size_t to = link_of(lab, "h8", "leaf2");
  EXPECT_EQ(next_hops(lab, {}, lab.find("leaf1"), to).size(), 2u);
  EXPECT_EQ(next_hops(lab, {}, lab.find("h1"), to).size(), 1u);
  EXPECT_TRUE(next_hops(lab, {}, lab.find("leaf2"), to).empty());
}

TEST(Topology, ACutIsGoneAround) {
  const Topology lab = preset("leaf-spine", 8);
  const std::size_t to = link_of(lab, "h8", "leaf2");
  const std::size_t cut = link_of(lab, "leaf2", "spine1");
  const auto hops = next_hops(lab, {cut}, lab.find("leaf1"), to);
  ASSERT_EQ(hops.size(), 1u);
  EXPECT_EQ(hops[0], link_of(lab, "leaf1", "spine2"));
  const Topology bell = preset("dumbbell", 4);
  EXPECT_TRUE(next_hops(bell, {link_of(bell, "left", "right")}, bell.find("h1"), link_of(bell, "h4", "right"))
                  .empty());
}

TEST(Topology, HostsAreNoSwitches) {
  Topology line;
  line.nodes = {{"h1", true}, {"h2", true}, {"h3", true}};
  line.links = {{0, 1, {}}, {1, 2, {}}};
  EXPECT_TRUE(next_hops(line, {}, 0, 1).empty());
}

TEST(Topology, IsReadAsItWasWritten) {
  Topology lab = preset("leaf-spine", 4);
  lab.links[1].shape = {.rate_kbps = 1'000'000,
                        .delay = microseconds(20),
                        .loss_ppm = 1000,
                        .queue = 50,
                        .ecn = true,
                        .mtu = 4200};
  const Topology again = parse_topology(emit_topology(lab));
  EXPECT_EQ(emit_topology(again), emit_topology(lab));
  EXPECT_EQ(again.links[1].shape, lab.links[1].shape);
  EXPECT_EQ(again.links[0].shape, LinkShape{});
}

TEST(Topology, InterfacesAreCountedAtEachNode) {
  const Topology lab = preset("star", 3);
  EXPECT_EQ(lab.interface_of(2, lab.find("s1")), "eth2");
  EXPECT_EQ(lab.interface_of(2, lab.find("h3")), "eth0");
}

}  // namespace rrdma::tools::topology_test
