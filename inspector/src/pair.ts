// One live queue pair: the states that it passed, the levels of its queues and window, rates and round-trip times.
import { h, palette, replace, setAttribute, setText, Surface, svg } from "./dom";
import { count, duration, octets, qp as qpText, trim } from "./format";
import { historyMax, nameOf, type Captured, type Levels, type QueuePair, type Watched } from "./looks";
import { currentLanguage, t, type Word } from "./text";

const places: Record<string, [number, number]> = { RESET: [46, 30], INIT: [152, 30], RTR: [258, 30], RTS: [364, 30], SQD: [364, 106], SQE: [258, 106], ERR: [99, 106] };
// Every state can go to ERR, and ERR only to RESET.
const ways: [string, string][] = [["RESET", "INIT"], ["INIT", "RTR"], ["RTR", "RTS"], ["RTS", "SQD"], ["SQD", "RTS"], ["RTS", "SQE"], ["SQE", "RTS"], ["ERR", "RESET"]];

export class PairPanel {
  readonly element = h("div", { class: "one" });
  private readonly rates = new Surface({ class: "chart small" }, (s) => this.drawRates(s));
  private readonly trips = new Surface({ class: "chart tiny" }, (s) => this.drawRoundTrips(s));
  private one: Watched | null = null;
  private injections: number[] = [];
  private shape = "-";
  private levels: LevelsView | null = null;
  private counters: CountersView | null = null;

  private captures: Captured[] | undefined;
  onInject: (words: string) => void = () => {};

  redraw(): void { this.rates.redraw(); this.trips.redraw(); }

  show(one: Watched | null, injections: number[] = [], captures?: Captured[]): void {
    this.one = one;
    this.captures = captures;
    this.injections = injections;
    const shape = one ? JSON.stringify([one.key, one.gone, one.states.length, one.now.state, one.now.link, Boolean(one.now.levels), one.roundTrip.some((ns) => ns > 0), currentLanguage(), captures?.filter((capture) => capture.pid === one.pid)]) : "";
    if (shape !== this.shape || !one) { this.shape = shape; this.build(one); }
    if (!one) return;
    this.levels?.update(one.now.levels!);
    this.counters?.update(one);
    this.redraw();
  }

  private build(one: Watched | null): void {
    if (!one) { replace(this.element, h("p", { class: "hint" }, t("choose_pair"))); return; }
    const { now } = one, clock = (at: number | null) => at === null ? "·" : new Date(at).toLocaleTimeString();
    const measured = one.roundTrip.some((ns) => ns > 0);
    this.levels = now.levels && !one.gone ? new LevelsView(now.levels) : null;
    this.counters = new CountersView();
    replace(this.element,
      h("h2", {}, `QP ${qpText(now.qpn)} `, h("small", {}, `${now.type} · MTU ${now.path_mtu} · ${now.link} · ${nameOf(one.program)} ${one.pid}`)),
      one.gone ? null : this.actions(one),
      this.diagram(one),
      h("ol", { class: "history" }, ...one.states.slice(-8).map((s) => h("li", { title: t(s.at === null ? "passed_before" : "seen") }, h("code", {}, s.state), " ", h("small", {}, clock(s.at)))), one.gone ? h("li", {}, t("ended")) : null),
      this.levels?.element ?? null,
      h("h3", {}, t("payload_rate")), this.rates.canvas, measured ? h("h3", {}, t("round_trip")) : null, measured ? this.trips.canvas : null, this.counters.element);
  }

  // Captures a few seconds of this program and shows the packets of this queue pair, or injects faults into it.
  private actions(one: Watched): HTMLElement {
    const { qpn, peer } = one.now, hex = `0x${qpn.toString(16)}`, fault = `net=drop=5% pid=${one.pid}${peer ? ` peer=${peer}` : ""}`;
    if (!this.captures) return h("p", { class: "by-hand" }, t("capture_by_command"), " ", h("code", {}, `rrdma capture --pid ${one.pid} ${hex}.pcapng`), " ", h("code", {}, `rrdma fault set ${fault}`));
    const mine = this.captures.filter((capture) => capture.pid === one.pid), last = mine[mine.length - 1];
    const problem = h("span", { class: "reason" });
    const begin = async () => {
      const answer = await fetch("fault", { method: "POST", body: `capture ${one.pid}` }).then((one) => one.json() as Promise<{ done: boolean; text: string }>).catch((error) => ({ done: false, text: String(error) }));
      if (!answer.done) setText(problem, t("capture_failed", answer.text));
    };
    return h("div", { class: "actions" },
      last?.state === "running" ? h("span", { class: "hint" }, t("capturing", 3)) : h("button", { class: "chip capture", onclick: () => void begin() }, `⏺ ${t("capture_here")}`),
      h("button", { class: "chip inject", onclick: () => this.onInject(fault) }, `⚡ ${t("inject_here")}`),
      last?.state === "ready" ? h("a", { class: "captured", href: `captured/${last.number}#qp=${hex}`, target: "_blank", rel: "noopener" }, t("open_capture")) : null,
      last?.state === "failed" ? h("span", { class: "reason" }, t("capture_failed", "")) : null, problem);
  }

  private diagram(one: Watched): SVGElement {
    const visited = new Set(one.states.map((s) => s.state)), steps = new Set(one.states.slice(1).map((s, i) => `${one.states[i]!.state}-${s.state}`));
    const failed = [...steps].some((step) => step.endsWith("-ERR"));
    return svg("svg", { viewBox: "0 0 410 136", class: "states-diagram", role: "img", "aria-label": t("states") },
      ...ways.map(([a, b]) => arrow(places[a]!, places[b]!, steps.has(`${a}-${b}`), ways.some(([c, d]) => c === b && d === a))),
      arrow([212, 106], [99, 106], failed, false, 4), svg("text", { x: 174, y: 97, class: "any", "text-anchor": "middle" }, t("any_state")),
      ...Object.entries(places).map(([state, [x, y]]) => svg("g", { class: `state ${visited.has(state) ? "visited" : ""} ${state === one.now.state ? (one.gone ? "last" : "current") : ""} ${state}`, "data-state": state, transform: `translate(${x} ${y})` }, svg("rect", { x: -33, y: -17, width: 66, height: 34, rx: 10 }), svg("text", { "text-anchor": "middle", y: 5 }, state))));
  }

  private drawRates({ context: c, width, height }: Surface): void {
    const one = this.one;
    if (!one || one.times.length < 3) return;
    const p = palette(), slopes = [one.sent, one.received].map((list) => list.map((value, i) => i === 0 ? 0 : Math.max(0, (value - list[i - 1]!) / Math.max(1, one.times[i]! - one.times[i - 1]!) * 1000)));
    const most = Math.max(1, ...slopes[0]!, ...slopes[1]!);
    this.lines(c, width, height, most, [[slopes[0]!, p.request], [slopes[1]!, p.answer]], `${octets(Math.round(most))}/s`);
    c.fillStyle = p.rnr;
    for (const time of this.injections) {
      const at = one.times.findIndex((when) => when >= time);
      if (at < 0) continue;
      const x = this.x(at, width);
      c.fillRect(x - 0.5, 14, 1, height - 27);
      c.font = `12px ${p.sans}`;
      c.textAlign = "center";
      c.fillText("⚡", x, 12);
    }
    c.fillStyle = p.repeat;
    one.resent.forEach((value, i) => { if (i && value > one.resent[i - 1]!) c.fillRect(this.x(i, width) - 1, height - 10, 3, 7); });
  }

  private drawRoundTrips({ context: c, width, height }: Surface): void {
    const one = this.one;
    if (!one || one.times.length < 3) return;
    const most = Math.max(1, ...one.roundTrip);
    this.lines(c, width, height, most, [[one.roundTrip, palette().cm]], duration(most));
  }

  private x(i: number, width: number): number {
    // Use the whole width until two minutes are full.
    const n = this.one!.times.length, shown = Math.min(historyMax, Math.max(n, 60));
    return 4 + (i + shown - n) / (shown - 1) * (width - 8);
  }

  private lines(c: CanvasRenderingContext2D, width: number, height: number, most: number, series: [number[], string][], label: string): void {
    const p = palette(), floor = height - 13, room = floor - 17, Y = (value: number) => floor - value / most * room;
    c.strokeStyle = p.line;
    c.lineWidth = 1;
    for (const share of [0, 0.5, 1]) { const y = Math.round(floor - share * room) + 0.5; c.beginPath(); c.moveTo(0, y); c.lineTo(width, y); c.stroke(); }
    for (const [values, colour] of series) {
      c.beginPath();
      values.forEach((value, i) => c.lineTo(this.x(i, width), Y(value)));
      c.strokeStyle = colour;
      c.lineWidth = 1.8;
      c.stroke();
      c.lineTo(this.x(values.length - 1, width), floor);
      c.lineTo(this.x(0, width), floor);
      c.fillStyle = colour;
      c.globalAlpha = 0.1;
      c.fill();
      c.globalAlpha = 1;
    }
    c.fillStyle = p.faint;
    c.font = `11px ${p.mono}`;
    c.textAlign = "left";
    c.textBaseline = "alphabetic";
    c.fillText(label, 4, 11);
  }
}

function arrow([x0, y0]: [number, number], [x1, y1]: [number, number], walked: boolean, twin: boolean, start = -1): SVGElement {
  const length = Math.hypot(x1 - x0, y1 - y0), ux = (x1 - x0) / length, uy = (y1 - y0) / length, off = twin ? 7 : 0;
  // Boxes are 66 by 34: the distance from the centre of one to its edge.
  const edge = Math.min(33 / Math.max(Math.abs(ux), 1e-6), 17 / Math.max(Math.abs(uy), 1e-6)), begin = start < 0 ? edge + 3 : start;
  const sx = x0 + ux * begin - uy * off, sy = y0 + uy * begin + ux * off, ex = x1 - ux * (edge + 4) - uy * off, ey = y1 - uy * (edge + 4) + ux * off;
  return svg("g", { class: walked ? "way walked" : "way" }, svg("line", { x1: sx, y1: sy, x2: ex - ux * 5, y2: ey - uy * 5 }), svg("path", { d: `M${ex} ${ey} l${-ux * 8 - uy * 4} ${-uy * 8 + ux * 4} l${uy * 8} ${-ux * 8} z` }));
}

// The levels of its queues and its window.
class LevelsView {
  readonly element: HTMLElement;
  private readonly bars = (["send_queue", "receive_queue", "send_window"] as const).map((word, at) => new Bar(word, (["request", "answer", "cm"] as const)[at]!));
  private readonly psns = h("b", {});
  private readonly completions = h("b", {});

  constructor(levels: Levels) {
    const wide = (word: Word, content: Node | string) => h("div", { class: "level wide" }, h("dt", {}, t(word)), h("dd", {}, content));
    this.element = h("dl", { class: "levels" }, ...this.bars.map((bar) => bar.element), wide("psn_space", this.psns), wide("completions", this.completions), wide("credits", t("no_credits")));
    this.update(levels);
  }

  update(levels: Levels): void {
    this.bars[0]!.update(levels.send_queued, levels.send_capacity);
    this.bars[1]!.update(levels.receive_posted, levels.receive_capacity);
    this.bars[2]!.update(levels.under_way, levels.window);
    setText(this.psns, t("psn_levels", levels.oldest_psn, levels.next_psn, levels.expected_psn));
    setText(this.completions, `CQ ${levels.send_cq}${levels.send_cq === levels.receive_cq ? "" : `, ${levels.receive_cq}`}: ${t("completions_waiting", count(levels.completions_waiting))}`);
  }
}

// Drawn as SVG, because the page's content security policy allows no style attribute.
class Bar {
  private readonly filled = svg("rect", { width: 0, height: 6 });
  private readonly text = h("b", {});
  readonly element: HTMLElement;

  constructor(word: Word, kind: string) {
    this.element = h("div", { class: `level ${kind}`, "data-level": word }, h("dt", {}, t(word)), h("dd", {}, h("span", { class: "track" }, svg("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, this.filled)), this.text));
  }
  update(value: number, most: number): void {
    setAttribute(this.filled, "width", trim(most ? Math.min(1, value / most) * 100 : 0, 3));
    setText(this.text, `${count(value)} / ${count(most)}`);
  }
}

class CountersView {
  private readonly values = counted.map(() => h("dd", {}));
  readonly element = h("dl", { class: "counters" }, ...counted.map(([word], at) => h("div", {}, h("dt", {}, t(word)), this.values[at]!)));

  update(one: Watched): void {
    counted.forEach(([, text, warns], at) => {
      setText(this.values[at]!, text(one.now));
      setAttribute(this.values[at]!.parentElement!, "class", warns?.(one.now) ? "warn" : "");
    });
  }
}

const counted: [Word, (pair: QueuePair) => string, ((pair: QueuePair) => boolean)?][] = [
  ["messages_sent", (pair) => count(pair.sent_messages)], ["messages_received", (pair) => count(pair.received_messages)],
  ["octets_sent", (pair) => octets(pair.sent_octets)], ["octets_received", (pair) => octets(pair.received_octets)],
  ["repeats", (pair) => count(pair.packets_resent), (pair) => pair.packets_resent > 0], ["timeouts", (pair) => count(pair.ack_timeouts), (pair) => pair.ack_timeouts > 0],
  ["losses", (pair) => count(pair.packets_lost ?? 0), (pair) => (pair.packets_lost ?? 0) > 0], ["probes", (pair) => count(pair.probes_sent ?? 0)],
  ["naks", (pair) => count(pair.sequence_naks)], ["rnr_naks", (pair) => count(pair.rnr_naks_received)],
];
