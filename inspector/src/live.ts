// The programs that run: who talks to whom as a map that moves, one queue pair with its states and rates, and what went
// wrong with the words of `rrdma explain`. Four looks a second come as server-sent events.
import { forgetPalette, h, palette, replace, Surface, svg } from "./dom";
import { count, octets, qp as qpText, shortCount, trim } from "./format";
import { currentLanguage, of, setLanguage, t } from "./text";

interface QueuePair {
  qpn: number; type: string; state: string; link: string; path_mtu: number; peer_qpn: number; peer: string;
  sent_messages: number; received_messages: number; sent_octets: number; received_octets: number;
  packets_resent: number; ack_timeouts: number; sequence_naks: number; rnr_naks_received: number;
}
interface Process { pid: number; uid: number; program: string; devices: string[] | string; age_ms: number; counters: Record<string, number>; queue_pairs: QueuePair[] }
interface Said {
  time_ns: number; last_time_ns: number; times: number; severity: string; call: string; sentence: string;
  failure?: { status_name?: string; peer?: string; qpn?: number; wr_id?: number; remedy: string[]; last_retries?: { after_us: number; why: string }[]; flushed_sends?: number };
}
interface Explained { pid: number; program: string; running: boolean; sentences: Said[] }
interface Look { time_ns: string; problem?: string; stat: { daemon: { pid: number; slots_held: number; uptime_ms: number } | null; processes: Process[] }; explained: { en: Explained[]; zh: Explained[] } }

const historyMax = 480;  // two minutes
const words = {
  waiting: ["Waiting for programs: start one with  rrdma run -- PROGRAM", "等待程序：用 rrdma run -- PROGRAM 启动一个"] as [string, string],
  programs: ["Programs", "程序"] as [string, string], pairs: ["Queue pairs", "队列对"] as [string, string], wrong: ["What went wrong", "出了什么问题"] as [string, string],
  calm: ["Nothing has gone wrong since this page was opened.", "打开此页面以来一切正常。"] as [string, string],
  earlier: ["Before this page was opened", "打开此页面之前"] as [string, string],
  choose: ["Choose a queue pair to see its states, rates and counters.", "选择一个队列对，查看其状态、速率和计数。"] as [string, string],
  lost: ["The connection to rrdma inspect was lost.", "与 rrdma inspect 的连接已断开。"] as [string, string],
  gone: ["ended", "已结束"] as [string, string], seen: ["seen", "已见"] as [string, string],
  passed: ["must have been passed before the page looked", "在页面查看之前必然已经过"] as [string, string],
  remote: ["another host", "其他主机"] as [string, string],
};

// How a queue pair may go from state to state; those on the way to RTS cannot be left out.
const wayUp = ["RESET", "INIT", "RTR", "RTS"];
const places: Record<string, [number, number]> = { RESET: [54, 40], INIT: [154, 40], RTR: [254, 40], RTS: [354, 40], SQD: [354, 120], SQE: [254, 120], ERR: [154, 120] };
const ways: [string, string][] = [["RESET", "INIT"], ["INIT", "RTR"], ["RTR", "RTS"], ["RTS", "SQD"], ["SQD", "RTS"], ["RTS", "SQE"], ["SQE", "RTS"], ["INIT", "ERR"], ["RTR", "ERR"], ["RTS", "ERR"], ["SQD", "ERR"], ["ERR", "RESET"]];

interface Watched { key: string; pid: number; program: string; now: QueuePair; gone: boolean; states: { state: string; at: number | null }[]; sent: number[]; received: number[]; resent: number[]; times: number[] }

export class LivePage {
  private readonly map = h("div", { class: "map" });
  private readonly table = h("div", { class: "pairs" });
  private readonly errors = h("div", { class: "errors" });
  private readonly one = h("div", { class: "one" });
  private readonly head = h("header", { class: "bar" });
  private readonly search = h("input", { type: "search", "aria-label": "search", autocomplete: "off", spellcheck: "false" });
  private readonly chart = new Surface({ class: "chart small" }, (s) => this.drawRates(s));
  private readonly watched = new Map<string, Watched>();
  private readonly opened = Date.now() * 1e6;
  private chosen = "";
  private last: Look | null = null;
  private mapShape = "";
  private lost = false;
  private shownErrors = "";

  constructor(root: HTMLElement) {
    root.dataset.page = "live";
    this.search.placeholder = t("search");
    this.search.addEventListener("input", () => this.fillTable());
    replace(root, this.head, h("section", { class: "live-main" }, this.map, h("div", { class: "searchbox" }, this.search), this.table), h("aside", { class: "live-side" }, this.errors, this.one));
    document.addEventListener("keydown", (event) => {
      if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey) return;
      if (event.key === "t") this.theme(); else if (event.key === "l") this.language(); else if (event.key === "/") { event.preventDefault(); this.search.focus(); }
    });
    this.build();
    const events = new EventSource("live");
    events.onmessage = (event) => { this.lost = false; this.take(JSON.parse(event.data as string) as Look); };
    events.onerror = () => { this.lost = true; this.build(); };
  }

  private theme(): void {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    forgetPalette();
    this.chart.redraw();
  }
  private language(): void { setLanguage(currentLanguage() === "zh" ? "en" : "zh"); this.mapShape = this.shownErrors = ""; this.build(); if (this.last) this.show(this.last); }

  private build(): void {
    const look = this.last, processes = look?.stat?.processes ?? [];
    replace(this.head, h("h1", {}, h("span", { class: "logo", "aria-hidden": "true" }), "RRDMA ", h("span", {}, t("title"))),
      h("div", { class: "tabs" }, h("span", { class: `pulse ${this.lost ? "off" : ""}` }), h("span", { class: "live-word" }, this.lost ? of(words.lost) : look?.problem ?? t("live")),
        h("span", { class: "amount" }, `${of(words.programs)} ${processes.length}`), h("span", { class: "amount" }, `${of(words.pairs)} ${count(processes.reduce((n, p) => n + p.queue_pairs.length, 0))}`)),
      h("div", { class: "tools" }, h("button", { class: "icon text", title: "English / 中文", onclick: () => this.language() }, currentLanguage() === "zh" ? "EN" : "中"), h("button", { class: "icon text", title: t("theme"), "aria-label": t("theme"), onclick: () => this.theme() }, "◐")));
  }

  private take(look: Look): void {
    this.last = look;
    if (look.stat) this.remember(look);
    this.build();
    if (look.stat) this.show(look);
  }

  private remember(look: Look): void {
    const now = Number(BigInt(look.time_ns) / 1000000n), present = new Set<string>();
    for (const process of look.stat.processes) for (const pair of process.queue_pairs) {
      const key = `${process.pid}:${pair.qpn}`;
      present.add(key);
      let one = this.watched.get(key);
      if (!one) {
        // Whoever is seen in RTS came by RESET, INIT and RTR: there is no other way.
        const passed = pair.state === "ERR" || pair.state === "SQD" || pair.state === "SQE" ? wayUp : wayUp.slice(0, wayUp.indexOf(pair.state));
        one = { key, pid: process.pid, program: process.program, now: pair, gone: false, states: passed.map((state) => ({ state, at: null as number | null })), sent: [], received: [], resent: [], times: [] };
        this.watched.set(key, one);
      }
      const newest = one.states[one.states.length - 1];
      if (newest?.state !== pair.state) {
        // Looks are rarer than steps: those between are known all the same.
        const from = newest ? wayUp.indexOf(newest.state) : -1, to = wayUp.indexOf(pair.state);
        if (from >= 0 && to > from + 1) for (const state of wayUp.slice(from + 1, to)) one.states.push({ state, at: null });
        one.states.push({ state: pair.state, at: now });
      }
      one.now = pair;
      one.gone = false;
      one.sent.push(pair.sent_octets); one.received.push(pair.received_octets); one.resent.push(pair.packets_resent); one.times.push(now);
      if (one.times.length > historyMax) for (const list of [one.sent, one.received, one.resent, one.times]) list.shift();
    }
    for (const one of this.watched.values()) if (!present.has(one.key)) one.gone = true;
    if (this.watched.size > 3000) for (const [key, one] of this.watched) if (one.gone && key !== this.chosen) this.watched.delete(key);
  }

  // Octets in a second, by the last looks.
  private rate(list: number[], one: Watched): number {
    const n = list.length, back = Math.min(4, n - 1);
    if (back < 1 || one.gone) return 0;
    return Math.max(0, (list[n - 1]! - list[n - 1 - back]!) / Math.max(1, one.times[n - 1]! - one.times[n - 1 - back]!) * 1000);
  }

  private show(look: Look): void {
    this.drawMap(look);
    this.fillTable();
    this.fillErrors(look);
    this.fillOne();
  }

  private drawMap(look: Look): void {
    const processes = look.stat.processes;
    if (!processes.length) { this.mapShape = ""; replace(this.map, h("p", { class: "hint" }, of(words.waiting))); return; }
    // Who is whose peer: queue pairs that name each other; else a host that is not seen from here.
    const owner = new Map<string, number>();
    processes.forEach((process, at) => process.queue_pairs.forEach((pair) => owner.set(`${pair.qpn}:${pair.peer_qpn}`, at)));
    const hosts: string[] = [], edges = new Map<string, { a: number; b: number; pairs: Watched[]; link: string }>();
    processes.forEach((process, at) => process.queue_pairs.forEach((pair) => {
      if (!pair.peer_qpn && pair.type !== "UD") return;
      let to = owner.get(`${pair.peer_qpn}:${pair.qpn}`);
      if (to === undefined) {
        if (!pair.peer_qpn) return;
        if (!hosts.includes(pair.peer)) hosts.push(pair.peer);
        to = processes.length + hosts.indexOf(pair.peer);
      }
      const key = `${Math.min(at, to)}-${Math.max(at, to)}-${pair.link}`;
      const edge = edges.get(key) ?? { a: Math.min(at, to), b: Math.max(at, to), pairs: [], link: pair.link };
      const one = this.watched.get(`${process.pid}:${pair.qpn}`);
      if (one) edge.pairs.push(one);
      edges.set(key, edge);
    }));
    const nodes = processes.length + hosts.length, column = new Array<number>(nodes).fill(-1);
    const neighbours = (n: number) => [...edges.values()].flatMap((e) => e.a === n ? [e.b] : e.b === n ? [e.a] : []);
    for (let n = 0; n < nodes; ++n) if (column[n]! < 0) { column[n] = 0; const queue = [n]; while (queue.length) { const at = queue.shift()!; for (const other of neighbours(at)) if (column[other]! < 0) { column[other] = 1 - column[at]!; queue.push(other); } } }
    const width = Math.max(320, this.map.clientWidth || 900), box = Math.min(250, width * 0.34), tall = 62, gap = 22, rows = [0, 0];
    const at = column.map((c) => ({ x: c === 0 ? 18 : width - box - 18, y: 18 + rows[c]!++ * (tall + gap) }));
    const height = 18 + Math.max(rows[0]!, rows[1]!) * (tall + gap);
    const shape = JSON.stringify([width, currentLanguage(), processes.map((p) => [p.pid, p.queue_pairs.length]), hosts, [...edges.keys()]]);
    if (shape !== this.mapShape) {
      this.mapShape = shape;
      const lines = [...edges].map(([key, e]) => {
        const a = at[e.a]!, b = at[e.b]!, same = e.a === e.b || a.x === b.x;
        const x0 = a.x < width / 2 ? a.x + box : a.x, x1 = same ? x0 : b.x < width / 2 ? b.x + box : b.x, y0 = a.y + tall / 2, y1 = b.y + tall / 2 + (e.a === e.b ? 10 : 0);
        const bend = same ? (x0 < width / 2 ? 90 : -90) : (x1 - x0) * 0.4;
        const d = `M${x0} ${y0 - (e.a === e.b ? 10 : 0)} C${x0 + bend} ${y0} ${x1 + (same ? bend : -bend)} ${y1} ${x1} ${y1}`;
        const middle = same ? x0 + bend * 0.8 : (x0 + x1) / 2;
        return svg("g", { "data-edge": key, class: `edge ${e.link}` }, svg("path", { d, class: "wire" }), svg("path", { d, class: "flow" }), svg("text", { x: middle, y: (y0 + y1) / 2 - 8, "text-anchor": "middle" }, ""));
      });
      const boxes = at.map(({ x, y }, n) => {
        const process = processes[n];
        const group = svg("g", { class: process ? "node" : "node host", transform: `translate(${x} ${y})`, tabindex: 0 }, svg("rect", { width: box, height: tall, rx: 12 }),
          svg("text", { x: 16, y: 26, class: "name" }, process ? clip(process.program.replace(/^.*\//, ""), box) : clip(hosts[n - processes.length]!, box)),
          svg("text", { x: 16, y: 46, class: "small", "data-small": n }, process ? "" : of(words.remote)));
        if (process) group.addEventListener("click", () => { this.search.value = String(process.pid); this.fillTable(); });
        return group;
      });
      replace(this.map, svg("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", height, role: "img" }, ...lines, ...boxes));
    }
    processes.forEach((process, n) => {
      const label = this.map.querySelector(`[data-small="${n}"]`), c = process.counters;
      const memory = c["memory_regions"] ?? c["mrs"], queues = c["completion_queues"] ?? c["cqs"];
      if (label) label.textContent = clip(`pid ${process.pid} · ${process.queue_pairs.length} QP${queues === undefined ? "" : ` · ${queues} CQ`}${memory === undefined ? "" : ` · ${memory} MR`}`, box + 40);
    });
    for (const [key, edge] of edges) {
      const group = this.map.querySelector<SVGElement>(`[data-edge="${key}"]`);
      if (!group) continue;
      const rate = edge.pairs.reduce((sum, one) => sum + this.rate(one.sent, one), 0), resent = edge.pairs.some((one) => this.rate(one.resent, one) > 0), failed = edge.pairs.some((one) => one.now.state === "ERR");
      group.classList.toggle("moving", rate > 0);
      group.classList.toggle("trouble", resent);
      group.classList.toggle("failed", failed);
      (group.children[0] as SVGElement).style.strokeWidth = String(Math.min(10, 1.5 + Math.log10(1 + rate / 1e4) * 1.6));
      (group.children[1] as SVGElement).style.animationDuration = `${Math.max(0.35, 3 - Math.log10(1 + rate / 1e3) * 0.45)}s`;
      group.children[2]!.textContent = rate > 0 ? `${octets(Math.round(rate))}/s · ${edge.link}` : edge.link;
    }
  }

  private fillTable(): void {
    const terms = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = [...this.watched.values()].filter((one) => { const text = [one.pid, one.program, qpText(one.now.qpn), one.now.type, one.now.state, one.now.peer, one.now.link, one.now.packets_resent ? "repeat" : ""].join(" ").toLowerCase(); return terms.every((term) => text.includes(term)); })
      .sort((x, y) => Number(x.gone) - Number(y.gone) || this.rate(y.sent, y) - this.rate(x.sent, x) || x.pid - y.pid || x.now.qpn - y.now.qpn).slice(0, 200);
    if (!this.chosen && all.length) this.chosen = all[0]!.key;
    const zh = currentLanguage() === "zh";
    const heads = zh ? ["程序", "QP", "状态", "对端", "链路", "发送", "接收", "重传", "超时", "NAK"] : ["program", "QP", "state", "peer", "link", "sends", "receives", "resent", "timeouts", "NAKs"];
    replace(this.table, h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((name) => h("th", {}, name)))),
      h("tbody", {}, ...all.map((one) => h("tr", { class: one.gone ? "gone" : "", "aria-selected": one.key === this.chosen ? "true" : "false", "data-key": one.key, onclick: () => { this.chosen = one.key; this.fillTable(); this.fillOne(); } },
        h("td", {}, `${one.program.replace(/^.*\//, "")} `, h("small", {}, one.pid)), h("td", {}, h("code", {}, qpText(one.now.qpn)), h("small", {}, ` ${one.now.type}`)),
        h("td", {}, h("span", { class: `badge ${one.now.state === "ERR" ? "nak" : one.now.state === "RTS" ? "answer" : ""}` }, one.gone ? of(words.gone) : one.now.state)),
        h("td", {}, `${one.now.peer} `, h("small", {}, one.now.peer_qpn ? qpText(one.now.peer_qpn) : "")), h("td", {}, one.now.link),
        h("td", { class: "n" }, `${octets(Math.round(this.rate(one.sent, one)))}/s`), h("td", { class: "n" }, `${octets(Math.round(this.rate(one.received, one)))}/s`),
        h("td", { class: `n ${one.now.packets_resent ? "warn" : ""}` }, shortCount(one.now.packets_resent)), h("td", { class: `n ${one.now.ack_timeouts ? "warn" : ""}` }, shortCount(one.now.ack_timeouts)), h("td", { class: "n" }, shortCount(one.now.sequence_naks)))))));
  }

  private fillOne(): void {
    const one = this.watched.get(this.chosen);
    if (!one) { replace(this.one, h("p", { class: "hint" }, of(words.choose))); return; }
    const visited = new Set(one.states.map((s) => s.state));
    const steps = new Set(one.states.slice(1).map((s, i) => `${one.states[i]!.state}-${s.state}`));
    const diagram = svg("svg", { viewBox: "0 0 410 160", class: "states-diagram", role: "img" },
      ...ways.map(([a, b]) => {
        const [x0, y0] = places[a]!, [x1, y1] = places[b]!, length = Math.hypot(x1 - x0, y1 - y0), ux = (x1 - x0) / length, uy = (y1 - y0) / length, twin = ways.some(([c, d]) => c === b && d === a), off = twin ? 6 : 0;
        const start = 34 - Math.abs(uy) * 16, sx = x0 + ux * start - uy * off, sy = y0 + uy * start + ux * off, ex = x1 - ux * (start + 4) - uy * off, ey = y1 - uy * (start + 4) + ux * off;
        return svg("g", { class: steps.has(`${a}-${b}`) ? "way walked" : "way" }, svg("line", { x1: sx, y1: sy, x2: ex, y2: ey }), svg("path", { d: `M${ex} ${ey} l${-ux * 7 - uy * 4} ${-uy * 7 + ux * 4} l${uy * 8} ${-ux * 8} z` }));
      }),
      ...Object.entries(places).map(([state, [x, y]]) => svg("g", { class: `state ${visited.has(state) ? "visited" : ""} ${state === one.now.state ? "current" : ""} ${state}`, "data-state": state, transform: `translate(${x} ${y})` }, svg("rect", { x: -32, y: -16, width: 64, height: 32, rx: 9 }), svg("text", { "text-anchor": "middle", y: 5 }, state))));
    const number = (name: string, value: string) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    const clock = (at: number | null) => at === null ? "·" : new Date(at).toLocaleTimeString();
    replace(this.one, h("h2", {}, `QP ${qpText(one.now.qpn)} `, h("small", {}, `${one.now.type} · MTU ${one.now.path_mtu} · ${one.now.link} · ${one.program.replace(/^.*\//, "")} ${one.pid}`)), diagram as unknown as HTMLElement,
      h("ol", { class: "history" }, ...one.states.slice(-8).map((s) => h("li", { title: s.at === null ? of(words.passed) : of(words.seen) }, h("code", {}, s.state), " ", h("small", {}, clock(s.at))))),
      this.chart.canvas,
      h("dl", { class: "counters" }, number(currentLanguage() === "zh" ? "已发消息" : "messages sent", count(one.now.sent_messages)), number(currentLanguage() === "zh" ? "已收消息" : "received", count(one.now.received_messages)), number(currentLanguage() === "zh" ? "已发" : "sent", octets(one.now.sent_octets)), number(currentLanguage() === "zh" ? "已收" : "received", octets(one.now.received_octets)), number(t("repeats"), count(one.now.packets_resent)), number("timeouts", count(one.now.ack_timeouts)), number("NAKs", count(one.now.sequence_naks)), number("RNR NAKs", count(one.now.rnr_naks_received))));
    this.chart.redraw();
  }

  private drawRates({ context: c, width, height }: Surface): void {
    const one = this.watched.get(this.chosen);
    if (!one || one.times.length < 3) return;
    const p = palette(), series = [one.sent, one.received].map((list) => list.map((value, i) => i === 0 ? 0 : Math.max(0, (value - list[i - 1]!) / Math.max(1, one.times[i]! - one.times[i - 1]!) * 1000)));
    const most = Math.max(1, ...series[0]!, ...series[1]!), X = (i: number) => 4 + i / (historyMax - 1) * (width - 8), shift = historyMax - one.times.length;
    c.strokeStyle = p.line;
    for (const share of [0, 0.5, 1]) { const y = height - 14 - share * (height - 30); c.beginPath(); c.moveTo(0, y); c.lineTo(width, y); c.stroke(); }
    for (const [values, colour] of [[series[0]!, p.request], [series[1]!, p.answer]] as const) {
      c.strokeStyle = colour; c.lineWidth = 1.8; c.beginPath();
      values.forEach((value, i) => c.lineTo(X(i + shift), height - 14 - value / most * (height - 30)));
      c.stroke();
    }
    c.fillStyle = p.repeat;
    one.resent.forEach((value, i) => { if (i && value > one.resent[i - 1]!) c.fillRect(X(i + shift) - 1, height - 12, 3, 8); });
    c.fillStyle = p.faint;
    c.font = `11px ${p.mono}`;
    c.fillText(`${trim(most / 1e6, 3)} MB/s`, 4, 11);
  }

  private fillErrors(look: Look): void {
    const list = (currentLanguage() === "zh" ? look.explained.zh : look.explained.en) ?? [];
    const all = list.flatMap((process) => process.sentences.filter((said) => said.severity === "error").map((said) => ({ process, said }))).sort((x, y) => y.said.last_time_ns - x.said.last_time_ns).slice(0, 40);
    const shape = currentLanguage() + JSON.stringify(all.map(({ process, said }) => [process.pid, said.time_ns, said.times]));
    if (shape === this.shownErrors) return;
    this.shownErrors = shape;
    const fresh = all.filter(({ said }) => said.last_time_ns >= this.opened), before = all.filter(({ said }) => said.last_time_ns < this.opened);
    const card = ({ process, said }: (typeof all)[number]) => h("article", { class: "problem grave", "data-pid": process.pid, "data-delay-ms": Math.round(Date.now() - said.last_time_ns / 1e6) },
      h("header", {}, h("span", { class: "mark" }, "⊘"), h("div", {}, h("h3", {}, said.failure?.status_name ?? said.call), h("p", { class: "way" }, h("code", {}, `${process.program} ${process.pid}`), said.failure?.peer ? h("span", {}, `→ ${said.failure.peer}`) : null, h("span", {}, new Date(said.last_time_ns / 1e6).toLocaleTimeString()), said.times > 1 ? h("span", { class: "badge nak" }, `× ${said.times}`) : null))),
      h("p", {}, said.sentence), said.failure?.remedy?.length ? h("div", {}, h("h4", {}, t("checks")), h("ul", { class: "advice" }, ...said.failure.remedy.map((line) => h("li", {}, line)))) : null);
    replace(this.errors, h("h2", {}, of(words.wrong)), fresh.length ? null : h("p", { class: "hint" }, of(words.calm)), ...fresh.map(card), before.length ? h("details", {}, h("summary", {}, `${of(words.earlier)} (${before.length})`), ...before.map(card)) : null);
  }
}

function clip(text: string, width: number): string { const room = Math.floor((width - 28) / 7.6); return text.length > room ? text.slice(0, room - 1) + "…" : text; }
