// Plays a connection step by step, for learners: the purpose of each packet, the progress and states of both ends,
// and the memory that changes.
import { Mark, type Capture, type Details, type Selection } from "./capture";
import type { DetailsSource } from "./details";
import { h, icon, replace, svg } from "./dom";
import { count, octets, trim } from "./format";
import type { EndNames } from "./ladder";
import { fieldText, writtenAt, type Written } from "./memory";
import { of, t, type Bilingual } from "./text";

export type Side = "a" | "b";
const backMax = 4000;  // packets to look back or ahead: the longest message that is followed
const stepTime = 1600;  // milliseconds
const detailsKept = 2000;  // packets whose fields are cached

export interface MemoryChange { owner: Side; from: Side; kind: "send" | "write" | "read"; arrived: number; total: number; first: number }
export interface EndState { state: string; sent: number; answered: number }

const sideOf = (marks: number): Side => marks & Mark.fromB ? "b" : "a";
const other = (side: Side): Side => side === "a" ? "b" : "a";

// The progress of both ends after this packet.
export function endsAt(selection: Selection, place: number): Record<Side, EndState> {
  const { capture } = selection, ends: Record<Side, EndState> = { a: { state: "RTS", sent: NaN, answered: NaN }, b: { state: "RTS", sent: NaN, answered: NaN } };
  for (let k = Math.max(0, place - backMax); k <= place; ++k) {
    const i = selection.packets[k]!, marks = capture.marks[i]!, side = sideOf(marks);
    if (capture.cm[i]) { followHandshake(ends, capture.label(i), side); continue; }
    if (marks & Mark.request) ends[side].sent = capture.psn[i]!;
    else if (capture.opcodeName(i).endsWith("ARRIVALS")) ends[other(side)].answered = capture.psn[i]! - 1 & 0xffffff;
    else if (!(marks & (Mark.nak | Mark.rnr))) ends[other(side)].answered = capture.psn[i]!;
    if (marks & Mark.nak && capture.syndrome[i]! & 31) ends.a.state = ends.b.state = "ERR";
  }
  return ends;
}

// The queue pair transitions that librdmacm makes on these messages.
function followHandshake(ends: Record<Side, EndState>, message: string, sender: Side): void {
  const receiver = other(sender);
  if (message === "REQ") { ends[sender].state = "INIT"; ends[receiver].state = "RESET"; }
  if (message === "REP") { ends[sender].state = "RTR"; ends[receiver].state = "RTS"; }
  if (message === "RTU") ends[receiver].state = ends[sender].state = "RTS";
  if (message === "DREQ" || message === "DREP") ends[sender].state = "ERR";
  if (message === "REJ") ends.a.state = ends.b.state = "RESET";
}

// The message that this packet is a part of, as far as it has arrived without a gap. An out-of-order packet counts if
// it was not retransmitted, because then the receiver kept it.
export function memoryAt(selection: Selection, place: number): MemoryChange | null {
  const { capture } = selection, packet = selection.packets[place]!, marks = capture.marks[packet]!, name = capture.opcodeName(packet);
  const kind = name.includes("READ RESPONSE") ? "read" : name.includes("WRITE") ? "write" : name.includes("SEND") ? "send" : null;
  if (!kind || capture.cm[packet]) return null;
  const from = sideOf(marks), family = (i: number) => sideOf(capture.marks[i]!) === from && !capture.cm[i] && ((capture.marks[i]! & Mark.request) !== 0) === (kind !== "read") && /SEND|WRITE|READ RESPONSE/.test(capture.opcodeName(i));
  const begins = (i: number) => /FIRST|ONLY/.test(capture.opcodeName(i));
  let start = place;
  while (!begins(selection.packets[start]!) && start > 0 && place - start < backMax) {
    --start;
    while (start > 0 && !family(selection.packets[start]!)) --start;
  }
  const first = selection.packets[start]!;
  const places: number[] = [], newest = new Map<number, number>();  // of the message; the last place of each PSN
  for (let k = start, ends = -1; k < Math.min(selection.size, start + backMax); ++k) {
    const i = selection.packets[k]!, psn = capture.psn[i]!;
    const offset = psn - capture.psn[first]! & 0xffffff;
    if (!family(i)) continue;
    if (ends < 0 && offset > 0 && offset < backMax && begins(i)) ends = offset - 1;  // the next message
    if (offset > (ends < 0 ? backMax : ends)) continue;
    if (ends < 0 && capture.marks[i]! & Mark.endsMessage) ends = offset;
    places.push(k);
    newest.set(psn, k);
  }
  if (!places.includes(place)) return null;  // the first packet of its message is not in the capture
  const sizes = new Map<number, number>(), here = new Set<number>();
  let expected = capture.psn[first]!;
  for (const k of places) {
    const i = selection.packets[k]!, psn = capture.psn[i]!;
    sizes.set(psn, capture.octets[i]!);
    if (k > place || capture.marks[i]! & (Mark.lost | Mark.bad) || (psn !== expected && newest.get(psn) !== k)) continue;
    here.add(psn);
    while (here.has(expected)) expected = expected + 1 & 0xffffff;
  }
  const total = [...sizes.values()].reduce((sum, size) => sum + size, 0);
  let arrived = 0;
  for (let psn = capture.psn[first]!; here.has(psn); psn = psn + 1 & 0xffffff) arrived += sizes.get(psn)!;
  return { owner: other(from), from, kind, arrived, total, first };
}

// The effect of a packet.
export function storyOf(c: Capture, i: number): Bilingual {
  const marks = c.marks[i]!, name = c.opcodeName(i), psn = c.psn[i]!, size = c.octets[i]!;
  const again: Bilingual = marks & Mark.repeat ? ["Again, because an answer or a packet was lost: ", "重传（因为回答或包丢失）："] : ["", ""];
  const fate: Bilingual = !(marks & Mark.lost) ? ["", ""] : marks & Mark.remark ? [" A fault on purpose takes it away.", "有意的故障把它丢弃了。"] : [" It is lost on the way.", "它在途中丢失。"];
  const tell = (en: string, zh: string): Bilingual => [again[0] + en + fate[0], again[1] + zh + fate[1]];
  if (c.cm[i]) return cmStories[c.label(i)] ?? [c.label(i), c.label(i)];
  if (marks & Mark.rnr) return tell("RNR NAK: the receiver has no buffer posted; the sender waits and tries again.", "RNR NAK：接收方没有准备好缓冲区；发送方等待后重试。");
  if (marks & Mark.nak) return c.syndrome[i]! & 31
    ? tell(`NAK: the receiver refuses the request with PSN ${psn}. Both queue pairs go to the state ERR.`, `NAK：接收方拒绝 PSN ${psn} 的请求。两个队列对都进入 ERR 状态。`)
    : tell(`NAK: the receiver missed PSN ${psn}. The sender starts again from there.`, `NAK：接收方缺少 PSN ${psn}。发送方从那里重新开始。`);
  if (name.endsWith("ARRIVALS")) return tell(`ARRIVALS: between two ends that are RRDMA: PSN ${psn} is missing, what came behind it is kept; only the missing ones are sent again.`, `ARRIVALS：两端都是 RRDMA 时：缺少 PSN ${psn}，其后到达的已保留；只重传缺少的包。`);
  if (name.includes("ATOMIC ACKNOWLEDGE")) return tell("The value that was in the peer's memory before the operation.", "操作之前对方内存中的值。");
  if (name.includes("ACKNOWLEDGE")) return tell(`ACK: everything up to PSN ${psn} has arrived; the sender may forget it and completes its work requests.`, `ACK：PSN ${psn} 及之前的都已到达；发送方可以忘记它们，并完成相应的工作请求。`);
  if (name.includes("READ REQUEST")) return tell("READ: asks for memory of the other side; its program takes no part.", "READ：请求对方的内存；对方程序不参与。");
  if (name.includes("READ RESPONSE")) return tell(`READ RESPONSE: ${size} bytes, straight from the memory that was asked for.`, `READ RESPONSE：${size} 字节，直接来自所请求的内存。`);
  if (name.includes("WRITE")) return tell(`WRITE: ${size} bytes go directly into memory of the other side; its program takes no part.`, `WRITE：${size} 字节直接写入对方内存；对方程序不参与。`);
  if (name.includes("COMPARE") || name.includes("FETCH")) return tell("ATOMIC: eight bytes of the other side's memory are changed in one step, and their old value comes back.", "ATOMIC：一步修改对方内存中的八个字节，并返回旧值。");
  if (name.includes("SEND")) return marks & Mark.endsMessage
    ? tell(`SEND: ${size} bytes for the buffer that the receiver posted; the message is complete, and the receiver gets a completion.`, `SEND：${size} 字节放入接收方准备的缓冲区；消息完整，接收方得到一个完成事件。`)
    : tell(`SEND: ${size} bytes for the buffer that the receiver posted; more of the message follows.`, `SEND：${size} 字节放入接收方准备的缓冲区；后面还有该消息的内容。`);
  return tell(name, name);
}

const cmStories: Record<string, Bilingual> = {
  REQ: ["REQ: the active side asks for a connection and names its queue pair, its first PSN and what it can take.", "REQ：主动方请求连接，并给出自己的队列对、起始 PSN 和能力。"],
  REP: ["REP: the passive side accepts and names its own queue pair. Both now know each other.", "REP：被动方接受，并给出自己的队列对。双方互相认识了。"],
  RTU: ["RTU: ready to use. The passive side may send now.", "RTU：就绪。被动方现在可以发送。"],
  REJ: ["REJ: no connection; the reason stands in the message.", "REJ：拒绝连接；原因在消息中。"],
  DREQ: ["DREQ: one side asks to end the connection.", "DREQ：一方请求断开连接。"],
  DREP: ["DREP: the other side agrees; both queue pairs are done.", "DREP：另一方同意；两个队列对都结束了。"],
};

// The card at the foot of the ladder, and the timer that advances it.
export class Player {
  readonly element = h("div", { class: "caption", hidden: true });
  onStep: (place: number) => void = () => {};
  onChange: () => void = () => {};
  private timer = 0;
  private shown = -1;
  private readonly source: DetailsSource;

  constructor(private readonly capture: Capture, source: DetailsSource) {
    const known = new Map<number, Promise<Details | null>>();
    this.source = { fetch: (i) => {
      const asked = known.get(i) ?? source.fetch(i);
      if (known.size > detailsKept) known.clear();
      known.set(i, asked);
      return asked;
    } };
  }

  get playing(): boolean { return this.timer !== 0; }
  get open(): boolean { return !this.element.hidden; }

  start(selection: Selection, from: number): void {
    let place = from >= selection.size - 1 ? 0 : Math.max(0, from);
    const step = () => {
      this.onStep(place);
      if (++place >= selection.size) this.stop();
    };
    this.element.hidden = false;
    this.timer = window.setInterval(step, stepTime);
    step();
    this.onChange();
  }
  stop(): void {
    if (!this.playing) return;
    window.clearInterval(this.timer);
    this.timer = 0;
    this.onChange();
  }
  close(): void { this.stop(); this.element.hidden = true; this.shown = -1; this.onChange(); }

  tell(selection: Selection, place: number, names: EndNames, move: (by: number) => void, toggle: () => void): void {
    if (!this.open) return;
    this.shown = place;
    const i = selection.packets[place]!, ends = endsAt(selection, place), memory = memoryAt(selection, place);
    const button = (label: string, path: string, action: () => void) => h("button", { class: "icon", title: label, "aria-label": label, onclick: action }, icon(path));
    const side = (name: Side) => h("div", { class: "end-state", "data-side": name }, h("b", {}, names[name][0], " ", h("code", {}, names[name][1])),
      h("span", { class: `badge state-badge ${ends[name].state === "ERR" ? "nak" : ends[name].state === "RTS" ? "answer" : ""}` }, ends[name].state),
      h("span", { class: "progress" }, [Number.isNaN(ends[name].sent) ? "" : t("sent_until", ends[name].sent), Number.isNaN(ends[name].answered) ? "" : t("acked_until", ends[name].answered)].filter(Boolean).join(" · ")),
      memory?.owner === name ? this.memoryView(memory, place) : h("div", { class: "memory idle" }));
    replace(this.element, h("div", { class: "row" }, h("small", {}, t("step_of", count(place + 1), count(selection.size))), h("div", { class: "tools" }, button(t("step_back"), "M13 4l-7 6 7 6M4 4v12", () => move(-1)), button(t(this.playing ? "pause" : "play"), this.playing ? "M7 4v12M13 4v12" : "M6 4l10 6-10 6z", toggle), button(t("step_on"), "M7 4l7 6-7 6M16 4v12", () => move(1)), h("button", { class: "icon", title: t("close"), "aria-label": t("close"), onclick: () => this.close() }, "✕"))),
      h("p", {}, of(storyOf(this.capture, i))), h("div", { class: "states" }, side("a"), side("b")), this.octetsView(selection, place, names[other(sideOf(this.capture.marks[i]!))][0]));
  }

  // The first bytes that the packet writes, before and after.
  private octetsView(selection: Selection, place: number, owner: string): HTMLElement {
    const view = h("div", { class: "octets" });
    const row = (when: string, octets: Written["before"], than: Written["before"]) => [h("span", { class: "when" }, when),
      h("code", { class: "hex" }, ...octets.map((octet, k) => h("span", { class: octet !== null && octet !== than[k] ? "new" : "" }, octet === null ? "··" : octet.toString(16).padStart(2, "0")))),
      h("code", { class: "text" }, octets.map((octet) => octet === null ? "·" : octet >= 32 && octet < 127 ? String.fromCharCode(octet) : ".").join(""))];
    void writtenAt(selection, place, this.source).then((written) => {
      if (!written || this.shown !== place) return;
      const where = written.address === null ? t("octets_in_buffer", owner) : t("octets_at", owner, `0x${written.address.toString(16)}`);
      replace(view, h("small", {}, where), ...row(t("before"), written.before, written.before), ...row(t("afterwards"), written.after, written.before));
    }).catch(() => {});
    return view;
  }

  private memoryView(memory: MemoryChange, place: number): HTMLElement {
    const share = memory.total ? memory.arrived / memory.total : 1, where = h("code", { class: "where" }, memory.kind === "write" ? "" : t(memory.kind === "send" ? "posted_buffer" : "buffer_of_reader"));
    // Only the first packet of a WRITE holds its address.
    if (memory.kind === "write") void this.source.fetch(memory.first).then((details) => { if (details && this.shown === place) where.textContent = target(details); }).catch(() => {});
    return h("div", { class: `memory ${memory.kind}` }, h("span", { class: "what" }, t("memory")), h("span", { class: "track" }, svg("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { width: trim(share * 100, 4), height: 6 }))), h("b", {}, t("octets_of", octets(memory.arrived), octets(memory.total))), where);
  }
}

// "0x… rkey 0x…", from the fields of an RETH.
function target(details: Details): string {
  const address = fieldText(details, "Virtual address");
  return address ? `${address.replace(/^0x0+(?=.)/, "0x")} rkey ${fieldText(details, "R_Key")}` : "";
}
