#include "preload/netlink/nldev.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace rrdma::netlink {
namespace {

constexpr std::uint16_t kListDevices = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET);
constexpr std::uint16_t kListPorts = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_PORT_GET);
constexpr std::uint32_t kPort = 1;  // the only one

// Native byte order, as all of netlink.
template <typename T>
T read_as(const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

class Message {
 public:
  Message(const Question& question, std::uint16_t type, std::uint16_t flags) {
    nlmsghdr header{};
    header.nlmsg_type = type;
    header.nlmsg_flags = flags;
    header.nlmsg_seq = question.sequence;
    header.nlmsg_pid = question.sender;
    append(&header, sizeof header);
  }
  void append(const void* from, std::size_t size) {
    const auto* octets = static_cast<const std::uint8_t*>(from);
    bytes_.insert(bytes_.end(), octets, octets + size);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }
  void put(std::uint16_t attribute, const void* value, std::size_t size) {
    const nlattr header{.nla_len = static_cast<std::uint16_t>(NLA_HDRLEN + size), .nla_type = attribute};
    append(&header, sizeof header);
    append(value, size);
  }
  template <typename T>
  void put(std::uint16_t attribute, T value) {
    put(attribute, &value, sizeof value);
  }
  void put_text(std::uint16_t attribute, std::string_view text) {
    const std::string terminated(text);
    put(attribute, terminated.c_str(), terminated.size() + 1);
  }
  [[nodiscard]] std::vector<std::uint8_t> done() && {
    const auto size = static_cast<std::uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &size, sizeof size);
    return std::move(bytes_);
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

void name_device(Message& message, const files::DeviceView& view, std::uint32_t index) {
  message.put(RDMA_NLDEV_ATTR_DEV_INDEX, index);
  message.put_text(RDMA_NLDEV_ATTR_DEV_NAME, view.identity.name);
  message.put(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
}

void describe_device(Message& message, const files::DeviceView& view) {
  const std::string& firmware = view.identity.properties.firmware;
  message.put_text(RDMA_NLDEV_ATTR_FW_VERSION, firmware.empty() ? RRDMA_VERSION : firmware);
  message.put(RDMA_NLDEV_ATTR_NODE_GUID, view.identity.guid);
  message.put(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, view.identity.guid);
  message.put(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, std::uint8_t{RDMA_NODE_IB_CA});
  message.put_text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
}

void describe_port(Message& message, const files::DeviceView& view) {
  constexpr std::uint8_t kDown = 1, kActive = 4, kDisabled = 3, kLinkUp = 5;
  message.put(RDMA_NLDEV_ATTR_PORT_STATE, view.port.up ? kActive : kDown);
  message.put(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, view.port.up ? kLinkUp : kDisabled);
  message.put(RDMA_NLDEV_ATTR_NDEV_INDEX, view.identity.interface_index);
  message.put_text(RDMA_NLDEV_ATTR_NDEV_NAME, view.identity.interface);
}

}  // namespace

bool Question::is_dump() const { return (flags & NLM_F_DUMP) == NLM_F_DUMP; }

std::optional<Question> parse_question(Octets datagram) {
  if (datagram.size() < sizeof(nlmsghdr)) return std::nullopt;
  const auto header = read_as<nlmsghdr>(datagram.data());
  if (header.nlmsg_len < sizeof(nlmsghdr) || header.nlmsg_len > datagram.size()) return std::nullopt;
  Question question{.type = header.nlmsg_type,
                    .flags = header.nlmsg_flags,
                    .sequence = header.nlmsg_seq,
                    .sender = header.nlmsg_pid,
                    .device = {},
                    .port = {}};
  for (std::size_t at = NLMSG_HDRLEN; at + sizeof(nlattr) <= header.nlmsg_len;) {
    const auto attribute = read_as<nlattr>(datagram.data() + at);
    if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > header.nlmsg_len - at) return std::nullopt;
    if (attribute.nla_len == NLA_HDRLEN + sizeof(std::uint32_t)) {
      const auto value = read_as<std::uint32_t>(datagram.data() + at + NLA_HDRLEN);
      const auto type = attribute.nla_type & NLA_TYPE_MASK;
      if (type == RDMA_NLDEV_ATTR_DEV_INDEX) question.device = value;
      if (type == RDMA_NLDEV_ATTR_PORT_INDEX) question.port = value;
    }
    at += NLA_ALIGN(attribute.nla_len);
  }
  return question;
}

bool concerns(const Question& question, const OwnDevices& own) {
  if (question.type != kListDevices && question.type != kListPorts) return false;
  if (question.device) return own.has(*question.device);
  return question.is_dump() && question.type == kListDevices;
}

Messages describe(const Question& question, const OwnDevices& own) {
  Messages messages;
  for (std::size_t i = 0; i < own.views.size(); ++i) {
    const auto index = static_cast<std::uint32_t>(own.first_index + i);
    if (question.device && *question.device != index) continue;
    if (question.port && *question.port != kPort) continue;
    Message message(question, question.type, question.is_dump() ? NLM_F_MULTI : 0);
    name_device(message, own.views[i], index);
    if (question.type == kListPorts) {
      describe_port(message, own.views[i]);
    } else {
      describe_device(message, own.views[i]);
    }
    messages.push_back(std::move(message).done());
  }
  return messages;
}

Messages end_of_answer(const Question& question, int error) {
  if (question.is_dump() && error == 0) {
    Message message(question, NLMSG_DONE, NLM_F_MULTI);
    message.append(&error, sizeof error);
    return {std::move(message).done()};
  }
  if (error == 0 && (question.flags & NLM_F_ACK) == 0) return {};
  Message message(question, NLMSG_ERROR, 0);
  nlmsgerr cause{};
  cause.error = -error;
  cause.msg.nlmsg_len = sizeof(nlmsghdr);
  cause.msg.nlmsg_type = question.type;
  cause.msg.nlmsg_flags = question.flags;
  cause.msg.nlmsg_seq = question.sequence;
  cause.msg.nlmsg_pid = question.sender;
  message.append(&cause, sizeof cause);
  return {std::move(message).done()};
}

}  // namespace rrdma::netlink
