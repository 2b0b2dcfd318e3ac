// Topics for the reasons of a refusal by a connection manager: the status of RDMA_CM_EVENT_REJECTED (reason
// of a REJ), and of the same event for RDMA_PS_UDP (status of a SIDR_REP). Most of them reject one field of
// the request; those share their advice.
#include "tools/explain/topic.h"
#include "wire/cm_reasons.h"

namespace rrdma::tools {
namespace {

using wire::RejectReason;
using wire::SidrStatus;

constexpr Phrase kSeeRequest = {
    "Capture the packets (`rrdma run --pcap FILE`, or tcpdump of UDP port 4791) and look at the REQ with "
    "`rrdma decode -v FILE`.",
    "抓包（`rrdma run --pcap FILE`，或用 tcpdump 抓 UDP 4791），用 `rrdma decode -v FILE` 查看 REQ。"};
constexpr Phrase kPeersWord = {"The peer decided this: its log, or that of its driver, says why.",
                               "这是对端的决定：其日志或驱动日志会说明原因。"};
constexpr Phrase kNotRoce = {"RoCE has no such thing; RRDMA never says it.",
                             "RoCE 没有这个概念；RRDMA 不会返回它。"};
constexpr Phrase kAlternate = {"Alternate paths are not used on RoCE: do not ask for one.",
                               "RoCE 上不使用备用路径：请不要请求。"};

constexpr Topic about(RejectReason reason, std::string_view name, Phrase meaning,
                      std::array<Phrase, Topic::kLinesMax> causes,
                      std::array<Phrase, Topic::kLinesMax> checks) {
  return {TopicKind::kReject, static_cast<std::uint32_t>(reason), name, {}, meaning, causes, checks};
}

constexpr Topic field(RejectReason reason, std::string_view name, Phrase meaning) {
  return about(reason, name, meaning, {}, {{kSeeRequest, kPeersWord}});
}

constexpr Topic kRejects[] = {
    about(RejectReason::kNoQp, "no queue pair",
          {"The peer could not make a queue pair for the connection.", "对端无法为连接创建队列对。"},
          {{{"A limit of queue pairs is reached, or creating it failed.", "队列对达到上限，或创建失败。"}}},
          {{kPeersWord, {"`ibv_devinfo -v` at the peer: max_qp.", "在对端运行 `ibv_devinfo -v`：max_qp。"}}}),
    about(RejectReason::kNoEec, "no end-to-end context",
          {"The peer has no end-to-end context left.", "对端没有可用的端到端上下文。"}, {{kNotRoce}},
          {{kPeersWord}}),
    about(RejectReason::kNoResources, "no resources",
          {"The peer has no resources left for the connection.", "对端没有资源建立连接。"},
          {{{"Memory, queue entries or the backlog of the listener are exhausted.",
             "内存、队列项或监听队列（backlog）耗尽。"}}},
          {{{"Try again later; give rdma_listen a larger backlog.",
             "稍后重试；为 rdma_listen 设置更大的 backlog。"},
            kPeersWord}}),
    about(RejectReason::kTimeout, "timeout",
          {"The peer gave up waiting for this side's next message.", "对端等待本端的下一条消息超时。"},
          {{{"This side took too long between the answer (REP) and its confirmation (RTU): the program did "
             "not handle its events.",
             "本端在收到应答（REP）之后太久没有确认（RTU）：程序没有处理事件。"},
            {"The network lost the messages.", "网络丢失了消息。"}}},
          {{{"Call rdma_get_cm_event without long pauses.", "及时调用 rdma_get_cm_event。"},
            {"`rrdma doctor --peer ADDRESS`.", "运行 `rrdma doctor --peer 地址`。"}}}),
    field(RejectReason::kUnsupportedRequest, "unsupported request",
          {"The peer does not support this kind of request.", "对端不支持此类请求。"}),
    field(RejectReason::kInvalidCommId, "invalid communication ID",
          {"The peer does not know the connection that a message named.", "对端不认识消息所指的连接。"}),
    field(RejectReason::kInvalidCommInstance, "invalid communication instance",
          {"The peer does not know this instance of the connection.", "对端不认识该连接实例。"}),
    about(RejectReason::kInvalidServiceId, "invalid service ID",
          {"Nobody listens there.", "没有程序在那里监听。"},
          {{{"The server is not started yet, or has ended.", "服务端尚未启动，或已退出。"},
            {"It listens on another port, another port space (RDMA_PS_TCP, RDMA_PS_UDP) or another address.",
             "它监听的是另一个端口、端口空间（RDMA_PS_TCP、RDMA_PS_UDP）或地址。"},
            {"The server was started without `rrdma run`.", "服务端没有用 `rrdma run` 启动。"}}},
          {{{"Compare address and port on both sides; start the server first.",
             "核对两端的地址和端口；先启动服务端。"},
            {"`rrdma stat` on the server's host: is its process listed?",
             "在服务端主机上运行 `rrdma stat`：是否列出该进程？"}}}),
    field(RejectReason::kInvalidTransportType, "invalid transport type",
          {"The peer listens for another type of queue pair.", "对端监听的是另一种队列对类型。"}),
    about(RejectReason::kStaleConnection, "stale connection",
          {"The peer believes that this queue pair is still connected to it from before.",
           "对端认为该队列对仍保持着之前的连接。"},
          {{{"The program ended without disconnecting, and a new one got the same queue pair number.",
             "程序未断开连接就退出，新程序得到了相同的队列对号。"}}},
          {{{"Connect again: the refusal made the peer forget the old connection.",
             "重新连接：这次拒绝已让对端清除旧连接。"},
            {"Disconnect before exiting.", "退出前先断开连接。"}}}),
    about(RejectReason::kRdcNotExisting, "no reliable datagram channel",
          {"The reliable datagram channel does not exist.", "可靠数据报通道不存在。"}, {{kNotRoce}},
          {{kPeersWord}}),
    about(RejectReason::kInvalidGid, "invalid GID",
          {"The peer does not have the address (GID) to which the request was made.",
           "对端没有请求所指的地址（GID）。"},
          {{{"The address belongs to another interface of the peer than the device.",
             "该地址属于对端的另一个接口，而不是设备所在的接口。"}}},
          {{{"`rrdma gids` at the peer; start it with `rrdma run --netdev IF`.",
             "在对端运行 `rrdma gids`；用 `rrdma run --netdev IF` 启动。"},
            kSeeRequest}}),
    about(RejectReason::kInvalidLid, "invalid LID",
          {"The peer refused the LID of the request.", "对端拒绝了请求中的 LID。"},
          {{{"RoCE has no LIDs: the request is for InfiniBand.", "RoCE 没有 LID：该请求是 InfiniBand 的。"}}},
          {{kSeeRequest}}),
    field(RejectReason::kInvalidServiceLevel, "invalid service level",
          {"The peer refused the service level.", "对端拒绝了服务等级（SL）。"}),
    field(RejectReason::kInvalidTrafficClass, "invalid traffic class",
          {"The peer refused the traffic class.", "对端拒绝了流量类别。"}),
    field(RejectReason::kInvalidHopLimit, "invalid hop limit",
          {"The peer refused the hop limit.", "对端拒绝了跳数限制。"}),
    field(RejectReason::kInvalidPacketRate, "invalid packet rate",
          {"The peer refused the packet rate.", "对端拒绝了报文速率。"}),
    about(RejectReason::kInvalidAlternateGid, "invalid alternate GID",
          {"The peer refused the GID of the alternate path.", "对端拒绝了备用路径的 GID。"}, {},
          {{kAlternate}}),
    about(RejectReason::kInvalidAlternateLid, "invalid alternate LID",
          {"The peer refused the LID of the alternate path.", "对端拒绝了备用路径的 LID。"}, {},
          {{kAlternate}}),
    about(RejectReason::kInvalidAlternateServiceLevel, "invalid alternate service level",
          {"The peer refused the service level of the alternate path.", "对端拒绝了备用路径的服务等级。"}, {},
          {{kAlternate}}),
    about(RejectReason::kInvalidAlternateTrafficClass, "invalid alternate traffic class",
          {"The peer refused the traffic class of the alternate path.", "对端拒绝了备用路径的流量类别。"}, {},
          {{kAlternate}}),
    about(RejectReason::kInvalidAlternateHopLimit, "invalid alternate hop limit",
          {"The peer refused the hop limit of the alternate path.", "对端拒绝了备用路径的跳数限制。"}, {},
          {{kAlternate}}),
    about(RejectReason::kInvalidAlternatePacketRate, "invalid alternate packet rate",
          {"The peer refused the packet rate of the alternate path.", "对端拒绝了备用路径的报文速率。"}, {},
          {{kAlternate}}),
    about(RejectReason::kPortCmRedirect, "port and CM redirection",
          {"The peer wants to be asked at another port and connection manager.",
           "对端要求改向另一个端口和连接管理器请求。"},
          {},
          {{{"Ask there: the refusal's additional information has the address.",
             "按拒绝消息的附加信息中的地址重新请求。"},
            kSeeRequest}}),
    about(RejectReason::kPortRedirect, "port redirection",
          {"The peer wants the connection at another of its ports.", "对端要求使用它的另一个端口建立连接。"},
          {},
          {{{"Ask there: the refusal's additional information has the GID.",
             "按拒绝消息的附加信息中的 GID 重新请求。"},
            kSeeRequest}}),
    about(RejectReason::kInvalidPathMtu, "invalid path MTU",
          {"The peer cannot take packets of that path MTU.", "对端不能接收该路径 MTU 的报文。"},
          {{{"The interfaces have different MTUs.", "两端接口的 MTU 不同。"}}},
          {{{"`rrdma devices` on both sides; give both interfaces the same MTU.",
             "在两端运行 `rrdma devices`；让两端接口 MTU 一致。"}}}),
    about(RejectReason::kInsufficientResponderResources, "insufficient responder resources",
          {"The peer allows fewer READs and atomics at once than were asked.",
           "对端允许的并发 READ/原子操作少于请求值。"},
          {},
          {{{"Ask for less: initiator_depth and responder_resources in rdma_conn_param.",
             "减小 rdma_conn_param 的 initiator_depth 与 responder_resources。"}}}),
    about(RejectReason::kConsumerDefined, "consumer defined",
          {"The program at the other end refused (rdma_reject), perhaps with private data that says why.",
           "对端程序拒绝了连接（rdma_reject），可能附带说明原因的私有数据。"},
          {{{"The server is full, or does not like the request's private data or parameters.",
             "服务端已满，或不接受请求的私有数据或参数。"},
            {"The server ended between the request and its answer.", "服务端在应答前退出。"}}},
          {{{"Read private_data of the event; look into the server's log.",
             "查看事件的 private_data；查看服务端日志。"}}}),
    field(RejectReason::kInvalidRnrRetry, "invalid RNR retry count",
          {"The peer refused the RNR retry count.", "对端拒绝了 RNR 重试次数。"}),
    about(RejectReason::kDuplicateLocalCommId, "duplicate communication ID",
          {"The peer knows a connection of this identifier already.", "对端已有相同标识的连接。"}, {},
          {{{"Connect again: a new identifier is chosen.", "重新连接：会选择新的标识。"}}}),
    field(RejectReason::kInvalidClassVersion, "invalid class version",
          {"The peer speaks another version of the connection manager.", "对端的连接管理器版本不同。"}),
    field(RejectReason::kInvalidFlowLabel, "invalid flow label",
          {"The peer refused the flow label.", "对端拒绝了流标签。"}),
    about(RejectReason::kInvalidAlternateFlowLabel, "invalid alternate flow label",
          {"The peer refused the flow label of the alternate path.", "对端拒绝了备用路径的流标签。"}, {},
          {{kAlternate}}),
    about(RejectReason::kVendorOptionNotSupported, "vendor option not supported",
          {"The peer does not support an option of a vendor (ECE) that was asked for.",
           "对端不支持所请求的厂商选项（ECE）。"},
          {},
          {{{"Connect without ECE: do not call rdma_set_local_ece.",
             "不使用 ECE 连接：不要调用 rdma_set_local_ece。"}}}),
};

constexpr Topic answer(SidrStatus status, std::string_view name, Phrase meaning, Phrase check) {
  return {TopicKind::kSidr, static_cast<std::uint32_t>(status), name, {}, meaning, {}, {{check}}};
}

constexpr Topic kSidrStatuses[] = {
    answer(SidrStatus::kValid, "valid",
           {"The peer told the queue pair of the service.", "对端告知了该服务的队列对。"},
           {"Nothing is wrong.", "没有问题。"}),
    answer(SidrStatus::kServiceNotSupported, "service not supported",
           {"Nobody listens there for datagrams (RDMA_PS_UDP).", "没有程序在那里监听数据报（RDMA_PS_UDP）。"},
           {"Start the server first; compare address, port and port space.",
            "先启动服务端；核对地址、端口与端口空间。"}),
    answer(SidrStatus::kRejected, "rejected",
           {"The program at the other end refused.", "对端程序拒绝了请求。"},
           {"Read private_data of the event; look into the server's log.",
            "查看事件的 private_data；查看服务端日志。"}),
    answer(SidrStatus::kNoQp, "no queue pair",
           {"The peer has no queue pair for the service.", "对端没有用于该服务的队列对。"},
           {"Look at the server: it accepted without a queue pair.", "检查服务端：它接受请求时没有队列对。"}),
    answer(SidrStatus::kRedirect, "redirection",
           {"The peer wants to be asked elsewhere.", "对端要求改向别处请求。"},
           {"The answer's additional information has the address.", "应答的附加信息中有地址。"}),
    answer(SidrStatus::kVersionNotSupported, "version not supported",
           {"The peer speaks another version of the protocol.", "对端的协议版本不同。"},
           {"Look what runs at the peer; RRDMA and Linux speak version 2.",
            "检查对端运行的软件；RRDMA 与 Linux 使用版本 2。"}),
};

}  // namespace

std::span<const Topic> reject_topics() { return kRejects; }
std::span<const Topic> sidr_topics() { return kSidrStatuses; }

}  // namespace rrdma::tools
