// What each cause in a vendor_err of RRDMA means. The English sentence of a cause is stated in
// objects/cause.h; here are its Chinese and what to do about it, which depends on whose side it is.
#include "objects/cause.h"
#include "tools/explain/topic.h"

namespace rrdma::tools {
namespace {

using objects::Cause;

constexpr Topic about(Cause cause, std::string_view name, Phrase meaning, std::array<Phrase, Topic::kLinesMax> checks) {
  return {TopicKind::kCause, static_cast<std::uint32_t>(cause), name, {}, meaning, {}, checks};
}

constexpr Phrase kPrintElement = {"Print addr, length and lkey of each element of the sg_list and compare them with the ibv_mr.",
                                  "打印 sg_list 每个元素的 addr、length、lkey，与 ibv_mr 对比。"};
constexpr Phrase kPrintRemote = {"Print remote_addr, length and rkey where the peer posts, and address, length and rkey of the ibv_mr here.",
                                 "在对端打印 remote_addr、长度与 rkey，在本端打印 ibv_mr 的地址、长度与 rkey，进行对比。"};
constexpr Phrase kPeerTells = {"The peer knows the exact reason: `rrdma explain --pid PID` on its host, if it runs RRDMA.",
                               "对端知道确切原因：若它运行 RRDMA，在其主机上执行 `rrdma explain --pid PID`。"};
constexpr Phrase kCapture = {"Capture the packets: `rrdma run --pcap FILE`, then `rrdma decode FILE`.",
                             "抓包：`rrdma run --pcap FILE`，再执行 `rrdma decode FILE`。"};

constexpr Topic kTopics[] = {
    about(Cause::kNone, "no cause", {"No cause was recorded: the request did not fail, or not by RRDMA.", "没有记录原因：请求没有失败，或失败与 RRDMA 无关。"},
          {{{"vendor_err has a meaning only when status is not IBV_WC_SUCCESS.", "只有当 status 不是 IBV_WC_SUCCESS 时 vendor_err 才有意义。"}}}),
    about(Cause::kLocalKeyUnknown, "local key unknown", {"The lkey of a scatter/gather element names no registered memory.", "SGE 的 lkey 不对应任何已注册的内存。"},
          {{kPrintElement, {"Was the memory deregistered while the request was under way?", "请求进行期间内存是否已被注销？"}}}),
    about(Cause::kLocalKeyOtherDomain, "local key of another domain", {"The lkey belongs to another protection domain than the queue pair.", "lkey 与队列对属于不同的保护域。"},
          {{{"Register the memory with the ibv_pd with which the queue pair was created.", "用创建队列对时的同一个 ibv_pd 注册内存。"}}}),
    about(Cause::kLocalOutOfBounds, "local out of bounds", {"A scatter/gather element reaches outside its memory region.", "SGE 超出了其内存区域。"}, {{kPrintElement}}),
    about(Cause::kLocalNotWritable, "local not writable", {"Data should be placed into a region without IBV_ACCESS_LOCAL_WRITE.", "数据要写入没有 IBV_ACCESS_LOCAL_WRITE 权限的区域。"},
          {{{"Register memory for receives, READs and atomics with IBV_ACCESS_LOCAL_WRITE.", "用于接收、READ、原子操作的内存要带 IBV_ACCESS_LOCAL_WRITE 注册。"}}}),
    about(Cause::kLocalMemoryFault, "local memory gone", {"Registered memory of this side is no longer mapped.", "本端已注册的内存不再被映射。"},
          {{{"Keep memory until ibv_dereg_mr: do not free, munmap or truncate it before.", "在 ibv_dereg_mr 之前不要 free、munmap 或截断该内存。"}}}),
    about(Cause::kMessageTooLong, "message too long", {"The message is longer than the transport or the port allows.", "消息超过了传输或端口允许的长度。"},
          {{{"UD: at most the path MTU (`rrdma devices` shows it); others: 2 GiB.", "UD：最多为路径 MTU（见 `rrdma devices`）；其他类型：2 GiB。"}}}),
    about(Cause::kReceiveBufferTooSmall, "receive buffer too small", {"The message is longer than the receive request that it met.", "消息比所匹配的接收请求长。"},
          {{{"Post larger receives; on UD add 40 octets for the GRH.", "投递更大的接收缓冲区；UD 要加 40 字节 GRH。"}}}),
    about(Cause::kOperationNotAllowed, "operation not allowed", {"The operation is not allowed on this queue pair.", "该队列对不允许这个操作。"},
          {{{"Compare opcode with qp_type: UC has no READ and no atomics, UD only SEND.", "核对 opcode 与 qp_type：UC 没有 READ 和原子操作，UD 只有 SEND。"},
            {"READs and atomics need max_rd_atomic > 0 in the change to RTS.", "READ 与原子操作要求转到 RTS 时 max_rd_atomic > 0。"}}}),
    about(Cause::kWindowBindRefused, "window bind refused", {"The memory window cannot be bound to that memory with those rights.", "不能以这些权限把内存窗口绑定到该内存。"},
          {{{"The region needs IBV_ACCESS_MW_BIND, and local write where the window grants remote write or atomics.",
             "内存区域需要 IBV_ACCESS_MW_BIND；窗口授予远程写或原子操作时还需要本地写。"},
            {"Window, region and queue pair must be of one protection domain.", "窗口、内存区域、队列对必须属于同一保护域。"}}}),
    about(Cause::kInvalidateRefused, "invalidate refused", {"The key to invalidate names no bound type 2 memory window of this queue pair.", "要失效的密钥不是本队列对上已绑定的二类内存窗口。"},
          {{{"Only type 2 windows can be invalidated, through the queue pair that bound them.", "只有二类窗口可以失效，且必须通过绑定它的队列对。"}}}),
    about(Cause::kPathUnusable, "path unusable", {"No link can carry packets to the peer's address.", "没有链路能把报文送到对端地址。"},
          {{{"`rrdma doctor --peer ADDRESS`; `ip route get ADDRESS`.", "运行 `rrdma doctor --peer 地址`；`ip route get 地址`。"},
            {"`rrdma stat` says whether the daemon has the network.", "`rrdma stat` 说明守护进程是否拥有网络。"}}}),
    about(Cause::kPeerSaidInvalidRequest, "peer: invalid request", {"The peer answered NAK: invalid request.", "对端返回 NAK：非法请求。"}, {{kPeerTells, kCapture}}),
    about(Cause::kPeerSaidAccessError, "peer: access error", {"The peer answered NAK: remote access error.", "对端返回 NAK：远程访问错误。"}, {{kPrintRemote, kPeerTells}}),
    about(Cause::kPeerSaidOperationalError, "peer: operational error", {"The peer answered NAK: remote operational error.", "对端返回 NAK：远程操作错误。"},
          {{kPeerTells, {"The peer's receive request has a wrong scatter/gather element, more often than not.", "多数情况下是对端接收请求的 SGE 有误。"}}}),
    about(Cause::kPeerNotReady, "peer not ready", {"The peer had no receive request posted, rnr_retry times in a row.", "对端连续 rnr_retry 次没有投递接收请求。"},
          {{{"Post receives earlier at the peer; rnr_retry 7 waits for ever.", "让对端更早投递接收；rnr_retry 7 表示无限等待。"}}}),
    about(Cause::kPeerSilent, "peer silent", {"The peer did not acknowledge within timeout, retry_cnt times in a row.", "对端连续 retry_cnt 次未在 timeout 内确认。"},
          {{{"`rrdma doctor --peer ADDRESS`: does its host answer at all?", "运行 `rrdma doctor --peer 地址`：对端主机是否应答？"},
            {"Compare destination QPN, PSN and GID of both sides.", "核对两端的目的 QPN、PSN 与 GID。"},
            {"Is the peer's process alive, and its queue pair in RTR or RTS?", "对端进程是否存活，队列对是否在 RTR 或 RTS？"}}}),
    about(Cause::kPeerBadResponse, "peer: bad response", {"The peer's response does not fit the request.", "对端的响应与请求不符。"}, {{kCapture}}),
    about(Cause::kPeerKeepsNaking, "peer keeps asking", {"The peer asked for the same packet again, retry_cnt times in a row.", "对端连续 retry_cnt 次要求重传同一个报文。"},
          {{{"Something on the way drops this packet each time: compare path_mtu with the MTU of the network (`ping -M do -s SIZE`).",
             "路径上有设备每次都丢弃这个报文：比较 path_mtu 与网络 MTU（`ping -M do -s 大小`）。"},
            kCapture}}),
    about(Cause::kPeerGone, "peer gone", {"The peer process on this host has ended.", "本机上的对端进程已退出。"},
          {{{"Look why it ended; close connections before exiting (rdma_disconnect).", "检查它为何退出；退出前应关闭连接（rdma_disconnect）。"}}}),
    about(Cause::kRemoteKeyUnknown, "rkey unknown", {"The rkey names no registered memory or bound window.", "rkey 不对应任何已注册内存或已绑定窗口。"},
          {{kPrintRemote, {"Send rkeys in network byte order and convert them back.", "以网络字节序传送 rkey，并在对端转换回来。"}}}),
    about(Cause::kRemoteKeyOtherDomain, "rkey of another domain", {"The rkey belongs to another protection domain than the queue pair.", "rkey 与队列对属于不同的保护域。"},
          {{{"Register the memory with the ibv_pd of the queue pair that serves the request.", "用处理该请求的队列对的 ibv_pd 注册内存。"}}}),
    about(Cause::kRemoteKeyOtherQueuePair, "rkey of another queue pair", {"The rkey is a type 2 window bound through another queue pair.", "rkey 是通过另一个队列对绑定的二类窗口。"},
          {{{"Bind the window through the queue pair on which the peer uses it.", "通过对端使用的那个队列对绑定窗口。"}}}),
    about(Cause::kRemoteOutOfBounds, "remote out of bounds", {"The request reaches outside the memory that the rkey grants.", "请求超出了 rkey 授权的内存范围。"}, {{kPrintRemote}}),
    about(Cause::kRemoteAccessNotGranted, "remote access not granted", {"The memory behind the rkey does not grant this kind of access.", "rkey 对应的内存没有授予该类访问权限。"},
          {{{"Register it with IBV_ACCESS_REMOTE_WRITE, _READ or _ATOMIC.", "注册时加上 IBV_ACCESS_REMOTE_WRITE、_READ 或 _ATOMIC。"}}}),
    about(Cause::kRemoteMemoryFault, "remote memory gone", {"The registered memory behind the rkey is no longer mapped.", "rkey 对应的已注册内存不再被映射。"},
          {{{"Keep memory until ibv_dereg_mr.", "在 ibv_dereg_mr 之前保留该内存。"}}}),
    about(Cause::kRequestOpcodeUnexpected, "opcode unexpected", {"The packet's opcode does not continue the message in progress.", "报文的操作码与进行中的消息不连续。"},
          {{{"The peer's implementation is faulty, or two of its queue pairs send to this one.", "对端实现有误，或它有两个队列对同时发往本队列对。"}, kCapture}}),
    about(Cause::kRequestLengthWrong, "length wrong", {"The packet's payload length does not fit its opcode, the MTU or the message.", "报文载荷长度与操作码、MTU 或消息不符。"},
          {{{"Compare path_mtu of both sides.", "比较两端的 path_mtu。"}, kCapture}}),
    about(Cause::kRequestNotEnabled, "not enabled", {"The queue pair's access flags or type do not allow this operation.", "队列对的访问标志或类型不允许该操作。"},
          {{{"Set qp_access_flags in the change to INIT.", "在转到 INIT 时设置 qp_access_flags。"}}}),
    about(Cause::kAtomicMisaligned, "atomic misaligned", {"The address of an atomic operation is not a multiple of eight.", "原子操作的地址不是 8 的倍数。"},
          {{{"Align the variable: alignas(8).", "对齐变量：alignas(8)。"}}}),
    about(Cause::kTooManyReads, "too many READs", {"More READs and atomics at once than max_dest_rd_atomic.", "同时进行的 READ 与原子操作超过 max_dest_rd_atomic。"},
          {{{"Set max_rd_atomic of the peer to at most max_dest_rd_atomic here.", "对端的 max_rd_atomic 不应超过本端的 max_dest_rd_atomic。"}}}),
    about(Cause::kRemoteInvalidateRefused, "remote invalidate refused", {"SEND with invalidate named a key that cannot be invalidated.", "SEND with invalidate 指定了不能失效的密钥。"},
          {{{"Only a type 2 window that this queue pair bound can be invalidated.", "只有本队列对绑定的二类窗口可以失效。"}}}),
    about(Cause::kFlushed, "flushed", {"The queue pair had already failed or was moved to the error state.", "队列对之前已经失败，或被置为错误状态。"},
          {{{"Look at the first failed completion of this queue pair: it has the cause.", "查看该队列对第一个失败的完成项：原因在那里。"}}}),
    about(Cause::kQueuePairDestroyed, "destroyed", {"The queue pair was destroyed or reset.", "队列对已被销毁或复位。"},
          {{{"Wait for completions before ibv_destroy_qp or the change to RESET.", "在 ibv_destroy_qp 或转到 RESET 之前等待完成。"}}}),
};

}  // namespace

std::span<const Topic> cause_topics() { return kTopics; }

}  // namespace rrdma::tools
