// Three charts of a connection: a latency histogram, rates over time, and the PSN space.
import { latencies, Mark, type Selection } from "./capture";
import { h, palette, replace, Surface } from "./dom";
import { count, duration, niceStep, octets, shortCount, timeAt } from "./format";
import type { EndNames } from "./ladder";
import { t } from "./text";

const margin = { left: 64, right: 18, top: 14, bottom: 30 };

export class LatencyView {
  readonly element = h("div", { class: "charts" });
  private selection: Selection | null = null;
  private sides: ReturnType<typeof latencies> = { a: new Float64Array(), b: new Float64Array(), unknown: { a: 0, b: 0 } };
  private readonly histogram = new Surface({ class: "chart" }, (s) => this.drawHistogram(s));
  private readonly rate = new Surface({ class: "chart small" }, (s) => this.drawRate(s));
  private readonly heat = new Surface({ class: "chart small" }, (s) => this.drawHeat(s));

  show(selection: Selection, names: EndNames): void {
    this.selection = selection;
    this.sides = latencies(selection);
    const { a, b } = this.sides;
    const legend = (["a", "b"] as const).filter((side) => this.sides[side].length).map((side) => {
      const sorted = this.sides[side], at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
      return h("div", { class: `figure ${side}` }, h("h3", {}, h("i", { class: "dot" }), t("side_sends", names[side][0]), h("code", {}, names[side][1])),
        h("dl", {}, ...([["n", count(sorted.length)], [t("median"), duration(at(0.5))], ["p90", duration(at(0.9))], ["p99", duration(at(0.99))], ["max", duration(sorted[sorted.length - 1]!)]] as const)
          .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
    });
    const none = a.length + b.length === 0;
    const { unknown } = this.sides;
    const oneSided = (side: "a" | "b", other: "a" | "b") => unknown[side] ? h("p", { class: "about reason", "data-unknown": unknown[side] }, t("turnaround", names[other].join(" "), names[side].join(" "))) : null;
    replace(this.element, none && unknown.a + unknown.b ? null : h("p", { class: "about" }, none ? t("no_latency") : t("latency_about")), oneSided("a", "b"), oneSided("b", "a"),
      none ? null : h("div", { class: "figures" }, ...legend), none ? null : this.histogram.canvas,
      h("h2", {}, t("rate")), this.rate.canvas, h("h2", {}, t("retransmissions")), this.heat.canvas);
    this.redraw();
  }
  redraw(): void { this.histogram.redraw(); this.rate.redraw(); this.heat.redraw(); }

  private drawHistogram({ context: c, width, height }: Surface): void {
    const all = [this.sides.a, this.sides.b].filter((s) => s.length);
    if (all.length === 0) return;
    const p = palette();
    const low = Math.log10(Math.max(10, Math.min(...all.map((s) => s[0]!)))), high = Math.max(low + 0.3, Math.log10(Math.max(20, ...all.map((s) => s[s.length - 1]!))));
    const bins = Math.min(90, Math.max(20, Math.floor((width - 90) / 11)));
    const binned = (sorted: Float64Array) => {
      const out = new Uint32Array(bins);
      for (const value of sorted) ++out[Math.min(bins - 1, Math.max(0, Math.floor((Math.log10(Math.max(value, 10)) - low) / (high - low) * bins)))]!;
      return out;
    };
    const a = binned(this.sides.a), b = binned(this.sides.b), most = Math.max(1, ...a, ...b);
    const w = width - margin.left - margin.right, tall = height - margin.top - margin.bottom;
    this.grid(c, width, height, most, (n) => shortCount(n));
    const bar = w / bins;
    for (let i = 0; i < bins; ++i) {
      const x = margin.left + i * bar;
      for (const [values, colour, shift] of [[a, p.request, 0], [b, p.answer, 1]] as const) {
        const top = values[i]! ? Math.max(1.5, tall * values[i]! / most) : 0;
        c.fillStyle = colour;
        c.fillRect(x + 1 + shift * (bar - 2) / 2, height - margin.bottom - top, Math.max(1, (bar - 2) / 2 - 0.5), top);
      }
    }
    c.fillStyle = p.faint;
    c.font = `11px ${p.mono}`;
    c.textAlign = "center";
    c.textBaseline = "top";
    let last = -100;
    for (let power = Math.floor(low); power <= high; ++power) for (const factor of [1, 2, 5]) {
      const value = factor * 10 ** power, x = margin.left + (Math.log10(value) - low) / (high - low) * w;
      if (x < margin.left || x > width - 24 || x - last < 64) continue;
      c.fillText(duration(value), x, height - margin.bottom + 8);
      last = x;
    }
  }

  private bins(width: number): { edges: Uint32Array; bins: number; span: number } {
    const s = this.selection!, bins = Math.max(10, Math.floor((width - margin.left - margin.right) / 4)), span = Math.max(1, s.last - s.first);
    const edges = new Uint32Array(bins + 1);
    for (let i = 0; i <= bins; ++i) edges[i] = i === bins ? s.size : s.lowerBound(s.first + span * i / bins);
    return { edges, bins, span };
  }

  private drawRate({ context: c, width, height }: Surface): void {
    const s = this.selection;
    if (!s || s.size === 0) return;
    const p = palette(), { edges, bins, span } = this.bins(width), { capture } = s;
    const rates = [new Float64Array(bins), new Float64Array(bins)];
    const seconds = span / bins / 1e9;
    for (let i = 0; i < bins; ++i) for (let k = edges[i]!; k < edges[i + 1]!; ++k) {
      const packet = s.packets[k]!;
      rates[capture.marks[packet]! & Mark.fromB ? 1 : 0]![i]! += capture.octets[packet]! / seconds;
    }
    const most = Math.max(1, ...rates[0]!, ...rates[1]!);
    this.grid(c, width, height, most, (n) => octets(Math.round(n)) + "/s");
    this.timeAxis(c, width, height);
    const w = width - margin.left - margin.right, tall = height - margin.top - margin.bottom;
    for (const [values, colour] of [[rates[0]!, p.request], [rates[1]!, p.answer]] as const) {
      c.strokeStyle = colour;
      c.lineWidth = 1.8;
      c.beginPath();
      for (let i = 0; i < bins; ++i) c.lineTo(margin.left + (i + 0.5) * w / bins, height - margin.bottom - tall * values[i]! / most);
      c.stroke();
    }
  }

  private drawHeat({ context: c, width, height }: Surface): void {
    const s = this.selection;
    if (!s || s.size === 0) return;
    const p = palette(), { edges, bins } = this.bins(width);
    let most = 1;
    for (let i = 0; i < bins; ++i) most = Math.max(most, s.count("repeat", edges[i]!, edges[i + 1]!) + s.count("nak", edges[i]!, edges[i + 1]!));
    this.grid(c, width, height, most, (n) => shortCount(Math.round(n)));
    this.timeAxis(c, width, height);
    const w = width - margin.left - margin.right, tall = height - margin.top - margin.bottom, bar = w / bins;
    for (let i = 0; i < bins; ++i) {
      const repeat = s.count("repeat", edges[i]!, edges[i + 1]!) / most * tall, nak = s.count("nak", edges[i]!, edges[i + 1]!) / most * tall;
      c.fillStyle = p.repeat;
      c.fillRect(margin.left + i * bar, height - margin.bottom - repeat, Math.max(1, bar - 1), repeat);
      c.fillStyle = p.nak;
      c.fillRect(margin.left + i * bar, height - margin.bottom - repeat - nak, Math.max(1, bar - 1), nak);
    }
  }

  private grid(c: CanvasRenderingContext2D, width: number, height: number, most: number, text: (n: number) => string): void { grid(c, width, height, most, text); }
  private timeAxis(c: CanvasRenderingContext2D, width: number, height: number): void { timeAxis(c, width, height, this.selection!.first, this.selection!.last); }
}

function grid(c: CanvasRenderingContext2D, width: number, height: number, most: number, text: (n: number) => string): void {
  const p = palette(), tall = height - margin.top - margin.bottom;
  c.font = `11px ${p.mono}`;
  c.textAlign = "right";
  c.textBaseline = "middle";
  const step = niceStep(most / Math.max(2, tall / 46));
  for (let at = 0; at <= most; at += step) {
    const y = Math.round(height - margin.bottom - tall * at / most) + 0.5;
    c.strokeStyle = p.line;
    c.lineWidth = 1;
    c.beginPath(); c.moveTo(margin.left, y); c.lineTo(width - margin.right, y); c.stroke();
    c.fillStyle = p.faint;
    c.fillText(text(at), margin.left - 8, y);
  }
}

function timeAxis(c: CanvasRenderingContext2D, width: number, height: number, first: number, last: number): void {
  const p = palette(), w = width - margin.left - margin.right, span = Math.max(1, last - first);
  const step = niceStep(span / Math.max(2, w / 110));
  c.fillStyle = p.faint;
  c.font = `11px ${p.mono}`;
  c.textBaseline = "top";
  for (let at = Math.ceil(first / step) * step; at <= last; at += step) {
    const x = margin.left + (at - first) / span * w;
    c.textAlign = x > width - 40 ? "right" : "center";
    c.fillText(timeAt(at, step), x, height - margin.bottom + 8);
  }
}

// PSNs of one side over time; wheel and drag zoom and move.
export class SequenceView {
  readonly element = h("div", { class: "charts sequence" });
  onPick: (place: number) => void = () => {};
  private selection: Selection | null = null;
  private unwrapped = new Float64Array();  // PSN of each place on the line of its side, without wrapping; NaN: none
  private from = 0;
  private to = 1;
  private side: "a" | "b" = "a";
  private names: EndNames = { a: ["", ""], b: ["", ""] };
  private drag: { x: number; from: number; moved: number } | null = null;
  private readonly chart = new Surface({ class: "chart tall", tabindex: 0 }, (s) => this.draw(s));

  constructor() {
    const canvas = this.chart.canvas;
    const share = (event: MouseEvent) => Math.min(1, Math.max(0, (this.chart.at(event).x - margin.left) / (this.chart.width - margin.left - margin.right)));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const pivot = this.from + (this.to - this.from) * share(event), factor = Math.exp(event.deltaY * 0.0025);
      this.look(pivot - (pivot - this.from) * factor, pivot + (this.to - pivot) * factor);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); this.drag = { x: this.chart.at(event).x, from: this.from, moved: 0 }; });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.drag) return;
      const { x } = this.chart.at(event);
      const by = (this.drag.x - x) / (this.chart.width - margin.left - margin.right) * (this.to - this.from);
      this.drag.moved = Math.max(this.drag.moved, Math.abs(x - this.drag.x));
      this.look(this.drag.from + by, this.drag.from + by + this.to - this.from);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (this.drag && this.drag.moved < 5 && this.selection) this.onPick(this.selection.lowerBound(this.from + (this.to - this.from) * share(event)));
      this.drag = null;
    });
  }

  show(selection: Selection, names: EndNames): void {
    this.selection = selection;
    this.names = names;
    const { capture } = selection;
    this.unwrapped = new Float64Array(selection.size).fill(NaN);
    const newest = [NaN, NaN];
    for (let k = 0; k < selection.size; ++k) {
      const i = selection.packets[k]!, marks = capture.marks[i]!;
      const side = ((marks & Mark.fromB) !== 0) === ((marks & Mark.request) !== 0) ? 1 : 0;  // an answer counts for the other side
      const psn = capture.psn[i]!, before = newest[side]!;
      const value = Number.isNaN(before) ? psn : before + (((psn - before) % 0x1000000 + 0x1800000) % 0x1000000 - 0x800000);
      if (marks & Mark.request) newest[side] = Number.isNaN(before) ? value : Math.max(before, value);
      this.unwrapped[k] = value;
    }
    const requests = (side: "a" | "b") => selection.size && [...selection.packets.subarray(0, 5000)].some((i) => (capture.marks[i]! & Mark.request) && ((capture.marks[i]! & Mark.fromB) !== 0) === (side === "b"));
    if (!requests(this.side)) this.side = requests("b") ? "b" : "a";
    this.build();
    this.look(selection.first, selection.last);
  }
  private build(): void {
    const choice = (side: "a" | "b") => h("button", { class: "chip", "aria-pressed": this.side === side ? "true" : "false", onclick: () => { this.side = side; this.build(); this.chart.redraw(); } }, t("side_sends", this.names[side][0]), " ", h("code", {}, this.names[side][1]));
    replace(this.element, h("p", { class: "about" }, t("sequence_about")), h("div", { class: "chips" }, choice("a"), choice("b")), this.chart.canvas);
  }
  redraw(): void { this.chart.redraw(); }
  private look(from: number, to: number): void {
    const s = this.selection!;
    const size = Math.min(Math.max(1000, to - from), Math.max(1000, s.last - s.first));
    this.from = Math.max(s.first, Math.min(from, s.last - size));
    this.to = this.from + size;
    this.chart.redraw();
  }

  private draw({ context: c, width, height }: Surface): void {
    const s = this.selection;
    if (!s || s.size === 0) return;
    const p = palette(), { capture } = s, wanted = this.side === "b";
    const start = Math.max(0, s.lowerBound(this.from) - 1), end = Math.min(s.size, s.lowerBound(this.to) + 2);
    const stride = Math.max(1, Math.floor((end - start) / 60000));
    let low = Infinity, high = -Infinity;
    const mine = (k: number) => {
      const marks = capture.marks[s.packets[k]!]!;
      return ((marks & Mark.fromB) !== 0) === ((marks & Mark.request) !== 0 ? wanted : !wanted) && !capture.cm[s.packets[k]!];
    };
    for (let k = start; k < end; k += stride) if (mine(k)) { low = Math.min(low, this.unwrapped[k]!); high = Math.max(high, this.unwrapped[k]!); }
    if (low > high) return;
    const room = Math.max(4, high - low), w = width - margin.left - margin.right, tall = height - margin.top - margin.bottom;
    low -= room * 0.04; high = low + room * 1.08;
    const X = (time: number) => margin.left + (time - this.from) / (this.to - this.from) * w, Y = (psn: number) => height - margin.bottom - (psn - low) / (high - low) * tall;
    const step = Math.max(1, niceStep((high - low) / Math.max(2, tall / 50)));
    c.font = `11px ${p.mono}`;
    c.textAlign = "right";
    c.textBaseline = "middle";
    for (let at = Math.ceil(low / step) * step; at <= high; at += step) {
      const y = Math.round(Y(at)) + 0.5;
      c.strokeStyle = p.line; c.lineWidth = 1;
      c.beginPath(); c.moveTo(margin.left, y); c.lineTo(width - margin.right, y); c.stroke();
      c.fillStyle = p.faint;
      c.fillText(String(((at % 0x1000000) + 0x1000000) % 0x1000000), margin.left - 8, y);
    }
    timeAxis(c, width, height, this.from, this.to);
    c.save();
    c.beginPath(); c.rect(margin.left, margin.top, w, tall); c.clip();
    c.strokeStyle = p.answer; c.lineWidth = 2; c.globalAlpha = 0.75;
    c.beginPath();
    let acked = NaN;
    for (let k = start; k < end; k += stride) {
      const marks = capture.marks[s.packets[k]!]!;
      if (!mine(k) || marks & (Mark.request | Mark.nak | Mark.rnr)) continue;
      const x = X(s.time[k]!), y = Y(this.unwrapped[k]!);
      if (Number.isNaN(acked)) c.moveTo(x, y); else { c.lineTo(x, Y(acked)); c.lineTo(x, y); }
      acked = this.unwrapped[k]!;
    }
    c.stroke();
    c.globalAlpha = 1;
    for (const pass of [0, 1] as const) for (let k = start; k < end; k += pass ? 1 : stride) {
      const i = s.packets[k]!, marks = capture.marks[i]!;
      const marked = (marks & (Mark.repeat | Mark.lost | Mark.nak | Mark.rnr)) !== 0;
      if (marked !== (pass === 1) || !mine(k) || (!marked && !(marks & Mark.request))) continue;
      const x = X(s.time[k]!), y = Y(this.unwrapped[k]!);
      if (marks & (Mark.nak | Mark.rnr)) { c.fillStyle = p.nak; c.beginPath(); c.moveTo(x, y - 6); c.lineTo(x + 5.5, y + 4); c.lineTo(x - 5.5, y + 4); c.fill(); continue; }
      c.fillStyle = marks & Mark.repeat ? p.repeat : p.request;
      c.beginPath(); c.arc(x, y, marks & Mark.repeat ? 3.4 : 2.4, 0, 7); c.fill();
      if (marks & Mark.lost) { c.strokeStyle = p.lost; c.lineWidth = 1.8; c.beginPath(); c.moveTo(x - 4, y - 4); c.lineTo(x + 4, y + 4); c.moveTo(x + 4, y - 4); c.lineTo(x - 4, y + 4); c.stroke(); }
    }
    c.restore();
  }
}
