// What the page says, in English and Chinese.

export type Language = "en" | "zh";

const words = {
  title: ["inspector", "检查器"],
  connections: ["Connections", "连接"],
  search: ["Search: address, QP, RC, nak, repeat …", "搜索：地址、QP、RC、nak、repeat …"],
  nothing_found: ["Nothing fits.", "没有匹配项。"],
  more: ["{} more: narrow the search", "还有 {} 个：请缩小搜索范围"],
  ladder: ["Ladder", "时序图"],
  sequence: ["Sequence", "序号"],
  latency: ["Latency", "时延"],
  problems: ["Problems", "问题"],
  handshakes: ["Handshakes", "握手"],
  live: ["Live", "实时"],
  packets: ["packets", "包"],
  packet: ["Packet", "包"],
  messages: ["messages", "消息"],
  repeats: ["repeats", "重传"],
  naks: ["NAKs", "NAK"],
  losses: ["losses", "丢包"],
  by_step: ["Steps", "逐步"],
  by_time: ["Time", "时间"],
  fit: ["Fit all", "全部"],
  zoom_in: ["Zoom in", "放大"],
  zoom_out: ["Zoom out", "缩小"],
  next_problem: ["Next problem", "下一个问题"],
  previous_problem: ["Previous problem", "上一个问题"],
  play: ["Play step by step", "逐步播放"],
  pause: ["Pause", "暂停"],
  theme: ["Light or dark", "明暗主题"],
  help: ["Keys", "快捷键"],
  menu: ["List of connections", "连接列表"],
  close: ["Close", "关闭"],
  select_packet: ["Choose a packet in the ladder to see every field of it.", "在时序图中选择一个包，查看它的每个字段。"],
  no_details: ["This report has the fields of the packets that matter most only; open the capture itself with rrdma inspect to see all.", "此报告只包含最重要的包的字段；用 rrdma inspect 打开抓包文件可查看全部。"],
  loading: ["Reading the capture …", "正在读取抓包 …"],
  fields_loading: ["…", "…"],
  answer: ["Answered by packet {}", "由第 {} 个包回答"],
  request: ["Answers packet {}", "回答第 {} 个包"],
  after: ["after {}", "经过 {}"],
  traveled: ["arrived after {}", "{} 后到达"],
  was_lost: ["lost on the way", "途中丢失"],
  was_repeated: ["sent again", "重传"],
  was_gap: ["packets before it are missing", "之前有包缺失"],
  bad: ["wrong", "错误"],
  remark: ["injected fault", "注入的故障"],
  congestion: ["congestion", "拥塞"],
  ack_request: ["asks for an ACK", "请求确认"],
  payload: ["Payload", "负载"],
  first_octets: ["the first {} of {} octets", "前 {} 个，共 {} 个字节"],
  clause: ["Clause", "条款"],
  no_problems: ["No problem in this capture: nothing was refused, repeated or lost.", "此抓包没有问题：没有拒绝、重传或丢包。"],
  causes: ["Usual causes", "常见原因"],
  checks: ["What to check", "检查要点"],
  show: ["Show in the ladder", "在时序图中显示"],
  no_handshakes: ["No message of the connection manager was captured. Programs that exchange addresses by TCP, such as ibv_rc_pingpong, use none.", "没有抓到连接管理器的消息。通过 TCP 交换地址的程序（如 ibv_rc_pingpong）不使用它。"],
  connected: ["connected", "已连接"],
  rejected: ["rejected", "被拒绝"],
  unfinished: ["not finished", "未完成"],
  closed: ["connected, closed", "已连接，已关闭"],
  resolved: ["resolved (datagrams)", "已解析（数据报）"],
  no_latency: ["No request of this connection was answered in the capture: there is no round trip to measure.", "此连接没有被回答的请求：无法测量往返时间。"],
  latency_about: ["From the last packet of a request to the answer that covers it, repairs included.", "从请求的最后一个包到覆盖它的回答，包含修复时间。"],
  median: ["median", "中位数"],
  rate: ["Payload rate", "负载速率"],
  retransmissions: ["Repeats and NAKs over time", "重传与 NAK 随时间变化"],
  sequence_about: ["PSNs over time: what was sent, sent again, lost and acknowledged. A straight line is a connection at ease; steps back are repairs.", "PSN 随时间变化：已发送、重传、丢失与确认。直线表示连接顺畅；向下的台阶是修复。"],
  side_sends: ["{} sends", "{} 发送"],
  of_file: ["{} RoCE packets", "{} 个 RoCE 包"],
  foreign: ["{} others", "其他 {} 个"],
  left_out: ["the capture left out {}", "抓包遗漏 {} 个"],
  truncated: ["only the beginning: see --packets", "仅显示开头部分：见 --packets"],
  sent_until: ["sent to PSN {}", "已发送至 PSN {}"],
  acked_until: ["answered to PSN {}", "已回答至 PSN {}"],
  keys_title: ["Keys", "快捷键"],
  no_connection: ["There is no RoCE packet in this capture.", "此抓包中没有 RoCE 包。"],
  cannot: ["The page could not be filled: {}", "页面无法加载：{}"],
} satisfies Record<string, [string, string]>;

export type Word = keyof typeof words;

let language: Language = navigator.language?.toLowerCase().startsWith("zh") ? "zh" : "en";
export function setLanguage(chosen: Language): void { language = chosen; document.documentElement.lang = chosen === "zh" ? "zh-CN" : "en"; }
export function currentLanguage(): Language { return language; }

export function t(word: Word, ...values: (string | number)[]): string {
  let at = 0;
  return words[word][language === "zh" ? 1 : 0].replace(/\{\}/g, () => String(values[at++] ?? ""));
}
export function of(pair: [string, string]): string { return (language === "zh" ? pair[1] : pair[0]) || pair[0]; }

export const keys: [string, [string, string]][] = [
  ["↑ ↓", ["previous, next packet", "上一个、下一个包"]],
  ["n  p", ["next, previous problem", "下一个、上一个问题"]],
  ["+  −", ["zoom in, out (also Ctrl + wheel)", "放大、缩小（或 Ctrl + 滚轮）"]],
  ["0", ["all packets", "显示全部"]],
  ["PgUp PgDn Home End", ["move", "移动"]],
  ["s", ["by steps or by time", "按步骤或按时间"]],
  ["g", ["go to the answer or the request", "跳到回答或请求"]],
  ["Space", ["play, pause", "播放、暂停"]],
  ["/", ["search", "搜索"]],
  ["1 … 5", ["ladder, sequence, latency, problems, handshakes", "时序图、序号、时延、问题、握手"]],
  ["t", ["light or dark", "明暗主题"]],
  ["l", ["English or Chinese", "中文或英文"]],
];
