#include "preload/netlink/nldev.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace rrdma::netlink::nldev_test {

constexpr std::uint16_t kDevices = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET);
constexpr std::uint16_t kPorts = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_PORT_GET);

std::vector<std::uint8_t> question(
    std::uint16_t type, std::uint16_t flags,
    const std::vector<std::pair<std::uint16_t, std::uint32_t>>& attributes = {}) {
  std::vector<std::uint8_t> bytes(NLMSG_HDRLEN);
  for (const auto& [attribute, value] : attributes) {
    const nlattr header{.nla_len = NLA_HDRLEN + sizeof value, .nla_type = attribute};
    const auto* h = reinterpret_cast<const std::uint8_t*>(&header);
    const auto* v = reinterpret_cast<const std::uint8_t*>(&value);
    bytes.insert(bytes.end(), h, h + sizeof header);
    bytes.insert(bytes.end(), v, v + sizeof value);
  }
  const nlmsghdr header{.nlmsg_len = static_cast<std::uint32_t>(bytes.size()),
                        .nlmsg_type = type,
                        .nlmsg_flags = flags,
                        .nlmsg_seq = 7,
                        .nlmsg_pid = 42};
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

std::vector<files::DeviceView> two_devices() {
  std::vector<files::DeviceView> views(2);
  views[0].identity.name = "rrdma0";
  views[0].identity.interface = "eth0";
  views[0].identity.interface_index = 3;
  views[0].identity.guid = 0x0102030405060708;
  views[0].port.up = true;
  views[1].identity.name = "rrdma1";
  views[1].identity.interface = "eth1";
  return views;
}

struct Read {
  nlmsghdr header;
  std::map<int, std::string> attributes;
};

Read read(const std::vector<std::uint8_t>& message) {
  Read found{};
  std::memcpy(&found.header, message.data(), sizeof found.header);
  EXPECT_EQ(found.header.nlmsg_len, message.size());
  if (found.header.nlmsg_type == NLMSG_DONE || found.header.nlmsg_type == NLMSG_ERROR) return found;
  for (std::size_t at = NLMSG_HDRLEN; at < message.size();) {
    nlattr attribute{};
    std::memcpy(&attribute, message.data() + at, sizeof attribute);
    found.attributes[attribute.nla_type].assign(
        reinterpret_cast<const char*>(message.data()) + at + NLA_HDRLEN, attribute.nla_len - NLA_HDRLEN);
    at += NLA_ALIGN(attribute.nla_len);
  }
  return found;
}

std::uint32_t number(const std::string& bytes) {
  std::uint32_t value = 0;
  EXPECT_EQ(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

TEST(Nldev, AListOfDevicesNamesAllOfThem) {
  const auto views = two_devices();
  const OwnDevices own{.views = views, .first_index = 1000};
  const auto asked = parse_question(question(kDevices, NLM_F_REQUEST | NLM_F_ACK | NLM_F_DUMP));
  ASSERT_TRUE(asked && concerns(*asked, own));
  const auto answer = describe(*asked, own);
  ASSERT_EQ(answer.size(), 2u);
  const Read first = read(answer[0]), second = read(answer[1]);
  EXPECT_EQ(first.header.nlmsg_seq, 7u);
  EXPECT_EQ(first.header.nlmsg_pid, 42u);
  EXPECT_EQ(first.header.nlmsg_flags, NLM_F_MULTI);
  EXPECT_EQ(first.attributes.at(RDMA_NLDEV_ATTR_DEV_NAME), std::string("rrdma0\0", 7));
  EXPECT_EQ(number(first.attributes.at(RDMA_NLDEV_ATTR_DEV_INDEX)), 1000u);
  EXPECT_EQ(number(second.attributes.at(RDMA_NLDEV_ATTR_DEV_INDEX)), 1001u);
  const auto end = end_of_answer(*asked, 0);
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(read(end[0]).header.nlmsg_type, NLMSG_DONE);
}

TEST(Nldev, APortHasItsInterfaceAndState) {
  const auto views = two_devices();
  const OwnDevices own{.views = views};
  const auto asked = parse_question(question(
      kPorts, NLM_F_REQUEST | NLM_F_ACK, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}, {RDMA_NLDEV_ATTR_PORT_INDEX, 1}}));
  ASSERT_TRUE(asked && concerns(*asked, own));
  const auto answer = describe(*asked, own);
  ASSERT_EQ(answer.size(), 1u);
  const Read port = read(answer[0]);
  EXPECT_EQ(port.attributes.at(RDMA_NLDEV_ATTR_NDEV_NAME), std::string("eth0\0", 5));
  EXPECT_EQ(number(port.attributes.at(RDMA_NLDEV_ATTR_NDEV_INDEX)), 3u);
  EXPECT_EQ(port.attributes.at(RDMA_NLDEV_ATTR_PORT_STATE), std::string("\4"));
  const auto end = end_of_answer(*asked, 0);
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(read(end[0]).header.nlmsg_type, NLMSG_ERROR);
}

TEST(Nldev, TheKernelsDevicesAndOtherQuestionsAreNotOurs) {
  const auto views = two_devices();
  const OwnDevices own{.views = views, .first_index = 1000};
  const auto kernels = parse_question(question(kDevices, NLM_F_REQUEST, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}}));
  EXPECT_FALSE(concerns(*kernels, own));
  const auto beyond = parse_question(question(kDevices, NLM_F_REQUEST, {{RDMA_NLDEV_ATTR_DEV_INDEX, 1002}}));
  EXPECT_FALSE(concerns(*beyond, own));
  const auto other =
      parse_question(question(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_GET), NLM_F_DUMP));
  EXPECT_FALSE(concerns(*other, own));
}

TEST(Nldev, BrokenQuestionsAreRefused) {
  const auto good = question(kPorts, NLM_F_REQUEST, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}});
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(parse_question(Octets(good).first(size)));
  auto endless = good;
  endless[NLMSG_HDRLEN] = 0;  // the length of the attribute
  EXPECT_FALSE(parse_question(endless));
  auto longer = good;
  longer[NLMSG_HDRLEN] = 200;
  EXPECT_FALSE(parse_question(longer));
}

}  // namespace rrdma::netlink::nldev_test
