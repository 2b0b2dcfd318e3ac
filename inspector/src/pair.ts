// One queue pair that lives: the states that it went through, what its queues and its window hold, rates and round trips.
import { h, palette, replace, Surface, svg } from "./dom";
import { count, duration, octets, qp as qpText, trim } from "./format";
import { historyMax, nameOf, type Levels, type Watched } from "./looks";
import { t, type Word } from "./text";

const places: Record<string, [number, number]> = { RESET: [46, 30], INIT: [152, 30], RTR: [258, 30], RTS: [364, 30], SQD: [364, 106], SQE: [258, 106], ERR: [99, 106] };
// ERR can be reached from every state, and left for RESET only.
const ways: [string, string][] = [["RESET", "INIT"], ["INIT", "RTR"], ["RTR", "RTS"], ["RTS", "SQD"], ["SQD", "RTS"], ["RTS", "SQE"], ["SQE", "RTS"], ["ERR", "RESET"]];

export class PairPanel {
  readonly element = h("div", { class: "one" });
  private readonly rates = new Surface({ class: "chart small" }, (s) => this.drawRates(s));
  private readonly trips = new Surface({ class: "chart tiny" }, (s) => this.drawRoundTrips(s));
  private one: Watched | null = null;

  redraw(): void { this.rates.redraw(); this.trips.redraw(); }

  show(one: Watched | null): void {
    this.one = one;
    if (!one) { replace(this.element, h("p", { class: "hint" }, t("choose_pair"))); return; }
    const { now } = one, clock = (at: number | null) => at === null ? "·" : new Date(at).toLocaleTimeString();
    const measured = one.roundTrip.some((ns) => ns > 0);
    replace(this.element,
      h("h2", {}, `QP ${qpText(now.qpn)} `, h("small", {}, `${now.type} · MTU ${now.path_mtu} · ${now.link} · ${nameOf(one.program)} ${one.pid}`)),
      this.diagram(one),
      h("ol", { class: "history" }, ...one.states.slice(-8).map((s) => h("li", { title: t(s.at === null ? "passed_before" : "seen") }, h("code", {}, s.state), " ", h("small", {}, clock(s.at))))),
      now.levels && !one.gone ? levelsView(now.levels) : null,
      h("h3", {}, t("payload_rate")), this.rates.canvas, measured ? h("h3", {}, t("round_trip")) : null, measured ? this.trips.canvas : null, countersView(one));
    this.redraw();
  }

  private diagram(one: Watched): SVGElement {
    const visited = new Set(one.states.map((s) => s.state)), steps = new Set(one.states.slice(1).map((s, i) => `${one.states[i]!.state}-${s.state}`));
    const failed = [...steps].some((step) => step.endsWith("-ERR"));
    return svg("svg", { viewBox: "0 0 410 136", class: "states-diagram", role: "img", "aria-label": t("states") },
      ...ways.map(([a, b]) => arrow(places[a]!, places[b]!, steps.has(`${a}-${b}`), ways.some(([c, d]) => c === b && d === a))),
      arrow([212, 106], [99, 106], failed, false, 4), svg("text", { x: 174, y: 97, class: "any", "text-anchor": "middle" }, t("any_state")),
      ...Object.entries(places).map(([state, [x, y]]) => svg("g", { class: `state ${visited.has(state) ? "visited" : ""} ${state === one.now.state ? "current" : ""} ${state}`, "data-state": state, transform: `translate(${x} ${y})` }, svg("rect", { x: -33, y: -17, width: 66, height: 34, rx: 10 }), svg("text", { "text-anchor": "middle", y: 5 }, state))));
  }

  private drawRates({ context: c, width, height }: Surface): void {
    const one = this.one;
    if (!one || one.times.length < 3) return;
    const p = palette(), slopes = [one.sent, one.received].map((list) => list.map((value, i) => i === 0 ? 0 : Math.max(0, (value - list[i - 1]!) / Math.max(1, one.times[i]! - one.times[i - 1]!) * 1000)));
    const most = Math.max(1, ...slopes[0]!, ...slopes[1]!);
    this.lines(c, width, height, most, [[slopes[0]!, p.request], [slopes[1]!, p.answer]], `${octets(Math.round(most))}/s`);
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
    // The whole width for what there is, until two minutes are full.
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
  // Boxes are 66 by 34: how far from the middle of one its edge is.
  const edge = Math.min(33 / Math.max(Math.abs(ux), 1e-6), 17 / Math.max(Math.abs(uy), 1e-6)), begin = start < 0 ? edge + 3 : start;
  const sx = x0 + ux * begin - uy * off, sy = y0 + uy * begin + ux * off, ex = x1 - ux * (edge + 4) - uy * off, ey = y1 - uy * (edge + 4) + ux * off;
  return svg("g", { class: walked ? "way walked" : "way" }, svg("line", { x1: sx, y1: sy, x2: ex - ux * 5, y2: ey - uy * 5 }), svg("path", { d: `M${ex} ${ey} l${-ux * 8 - uy * 4} ${-uy * 8 + ux * 4} l${uy * 8} ${-ux * 8} z` }));
}

function levelsView(levels: Levels): HTMLElement {
  const bar = (word: Word, value: number, most: number, text: string, kind: string) => h("div", { class: `level ${kind}`, "data-level": word }, h("dt", {}, t(word)), h("dd", {}, h("span", { class: "track" }, meter(most ? value / most : 0)), h("b", {}, text)));
  const queues = levels.send_cq === levels.receive_cq ? `CQ ${levels.send_cq}` : `CQ ${levels.send_cq}, ${levels.receive_cq}`;
  return h("dl", { class: "levels" },
    bar("send_queue", levels.send_queued, levels.send_capacity, `${count(levels.send_queued)} / ${count(levels.send_capacity)}`, "request"),
    bar("receive_queue", levels.receive_posted, levels.receive_capacity, `${count(levels.receive_posted)} / ${count(levels.receive_capacity)}`, "answer"),
    bar("send_window", levels.under_way, levels.window, `${count(levels.under_way)} / ${count(levels.window)}`, "cm"),
    h("div", { class: "level wide" }, h("dt", {}, t("psn_space")), h("dd", {}, h("b", {}, t("psn_levels", levels.oldest_psn, levels.next_psn, levels.expected_psn)))),
    h("div", { class: "level wide" }, h("dt", {}, t("completions")), h("dd", {}, h("b", {}, `${queues}: ${t("completions_waiting", count(levels.completions_waiting))}`))),
    h("div", { class: "level wide" }, h("dt", {}, t("credits")), h("dd", {}, t("no_credits"))));
}

// A bar without a style attribute, which the policy of the page does not allow.
function meter(share: number): SVGElement {
  return svg("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { width: trim(Math.min(1, Math.max(0, share)) * 100, 4), height: 6 }));
}

function countersView(one: Watched): HTMLElement {
  const number = (word: Word, value: string, warn = false) => h("div", { class: warn ? "warn" : "" }, h("dt", {}, t(word)), h("dd", {}, value)), { now } = one;
  return h("dl", { class: "counters" }, number("messages_sent", count(now.sent_messages)), number("messages_received", count(now.received_messages)), number("octets_sent", octets(now.sent_octets)), number("octets_received", octets(now.received_octets)),
    number("repeats", count(now.packets_resent), now.packets_resent > 0), number("timeouts", count(now.ack_timeouts), now.ack_timeouts > 0), number("naks", count(now.sequence_naks)), number("rnr_naks", count(now.rnr_naks_received)));
}
