// Topics for the events of librdmacm (rdma_cm_event_type) from rdma_get_cm_event.
#include "tools/explain/topic.h"

namespace rrdma::tools {
namespace {

constexpr Topic event(std::uint32_t code, std::string_view name, Phrase meaning,
                      std::array<Phrase, Topic::kLinesMax> causes,
                      std::array<Phrase, Topic::kLinesMax> checks) {
  return {TopicKind::kConnectEvent, code, name, {}, meaning, causes, checks};
}

constexpr Phrase kStatusIsErrno = {"The event's status is a negative errno: `rrdma explain errno:N`.",
                                   "事件的 status 是负的 errno：`rrdma explain errno:N`。"};
constexpr Phrase kGoOn = {"Nothing is wrong.", "没有问题。"};

constexpr Topic kEventTopics[] = {
    event(0, "RDMA_CM_EVENT_ADDR_RESOLVED",
          {"The address leads to a device of this host.", "地址已解析到本机设备。"}, {},
          {{{"Go on with rdma_resolve_route.", "接着调用 rdma_resolve_route。"}}}),
    event(1, "RDMA_CM_EVENT_ADDR_ERROR",
          {"The address leads to no device of this host.", "地址无法解析到本机设备。"},
          {{{"No route, or the route goes by an interface on which no device sits.",
             "没有路由，或路由所用接口上没有设备。"}}},
          {{kStatusIsErrno,
            {"`ip route get ADDRESS`; `rrdma devices`; `rrdma run --netdev IF`.",
             "`ip route get 地址`；`rrdma devices`；`rrdma run --netdev IF`。"}}}),
    event(2, "RDMA_CM_EVENT_ROUTE_RESOLVED", {"The way to the peer is known.", "到对端的路径已确定。"}, {},
          {{{"Create the queue pair, post receives, then rdma_connect.",
             "创建队列对、投递接收，然后 rdma_connect。"}}}),
    event(3, "RDMA_CM_EVENT_ROUTE_ERROR", {"There is no way to the peer.", "没有到对端的路径。"}, {},
          {{kStatusIsErrno, {"`ip route get ADDRESS`.", "`ip route get 地址`。"}}}),
    event(4, "RDMA_CM_EVENT_CONNECT_REQUEST", {"A peer wants to connect.", "有对端请求连接。"}, {},
          {{{"Answer with rdma_accept or rdma_reject; post receives before.",
             "用 rdma_accept 或 rdma_reject 应答；之前先投递接收。"}}}),
    event(
        5, "RDMA_CM_EVENT_CONNECT_RESPONSE",
        {"The peer accepted (seen only by ids without a queue pair of librdmacm).",
         "对端接受了连接（只有没有 librdmacm 队列对的 id 会看到）。"},
        {},
        {{{"Move the queue pair to RTS, then rdma_establish.", "把队列对转到 RTS，然后 rdma_establish。"}}}),
    event(6, "RDMA_CM_EVENT_CONNECT_ERROR", {"Connecting failed half-way.", "连接过程失败。"},
          {{{"The queue pair could not be moved to RTR or RTS with what the peer offered.",
             "无法按对端给出的参数把队列对转到 RTR 或 RTS。"}}},
          {{kStatusIsErrno, {"`rrdma explain --pid PID`.", "`rrdma explain --pid PID`。"}}}),
    event(7, "RDMA_CM_EVENT_UNREACHABLE", {"The peer did not answer the request.", "对端没有应答请求。"},
          {{{"Nobody serves UDP port 4791 at that address, or a firewall drops it.",
             "该地址没有程序服务 UDP 4791 端口，或被防火墙丢弃。"},
            {"The peer's program does not handle its events.", "对端程序没有处理事件。"}}},
          {{{"`rrdma doctor --peer ADDRESS`.", "运行 `rrdma doctor --peer 地址`。"}, kStatusIsErrno}}),
    event(8, "RDMA_CM_EVENT_REJECTED", {"The peer refused.", "对端拒绝。"}, {},
          {{{"The event's status is the reason: `rrdma explain reject:N` (for RDMA_PS_UDP: `rrdma explain "
             "sidr:N`).",
             "事件的 status 是原因：`rrdma explain reject:N`（RDMA_PS_UDP：`rrdma explain sidr:N`）。"}}}),
    event(9, "RDMA_CM_EVENT_ESTABLISHED", {"The connection is made.", "连接已建立。"}, {}, {{kGoOn}}),
    event(10, "RDMA_CM_EVENT_DISCONNECTED", {"The connection has ended.", "连接已断开。"},
          {{{"The peer called rdma_disconnect, or its process ended.",
             "对端调用了 rdma_disconnect，或其进程已退出。"}}},
          {{{"Poll the flushed completions, then destroy the queue pair and the id.",
             "取走被 flush 的完成项，然后销毁队列对与 id。"}}}),
    event(11, "RDMA_CM_EVENT_DEVICE_REMOVAL", {"The device is gone.", "设备已消失。"},
          {{{"Its network interface was removed.", "其网络接口被移除。"}}},
          {{{"Destroy what belongs to it.", "销毁属于该设备的对象。"}}}),
    event(12, "RDMA_CM_EVENT_MULTICAST_JOIN", {"The group is joined.", "已加入组播组。"}, {}, {{kGoOn}}),
    event(13, "RDMA_CM_EVENT_MULTICAST_ERROR", {"The group could not be joined.", "无法加入组播组。"}, {},
          {{kStatusIsErrno}}),
    event(14, "RDMA_CM_EVENT_ADDR_CHANGE",
          {"The network address of the device changed.", "设备的网络地址已改变。"}, {},
          {{{"Resolve and connect anew.", "重新解析并连接。"}}}),
    event(15, "RDMA_CM_EVENT_TIMEWAIT_EXIT",
          {"Packets of the old connection can no longer arrive: its queue pair may be used again.",
           "旧连接的报文不会再到达：其队列对可以重新使用。"},
          {}, {{kGoOn}}),
};

}  // namespace

std::span<const Topic> connect_event_topics() { return kEventTopics; }

}  // namespace rrdma::tools
