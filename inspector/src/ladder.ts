// The ladder: two ends as two lines, time downwards, each packet an arrow. It shows steps (a row for each packet) or
// time (true distances). Binary search finds ranges and prefix sums count them, so a million packets cost no more to
// draw than a thousand.
import { Mark, none, type Selection } from "./capture";
import { palette, Surface, type Palette } from "./dom";
import { count, duration, niceStep, octets, timeAt } from "./format";
import type { Repairs } from "./repairs";
import { currentLanguage } from "./text";

export interface EndNames { a: [string, string]; b: [string, string] }
export type Mode = "steps" | "time";

const headRoom = 50;     // for the names of the ends
const rowsWanted = 26;   // initial pixels per step
const arrowsMax = 1600;  // more are drawn as bars
const labelRoom = 15;
const headGap = 1.25;   // steps above the first packet, for its label and an event before it

// The text, cut to the room that it has.
function fitted(c: CanvasRenderingContext2D, text: string, room: number): string {
  if (c.measureText(text).width <= room) return text;
  while (text.length > 4 && c.measureText(text + "…").width > room) text = text.slice(0, -Math.max(1, text.length >> 4));
  return text + "…";
}

export class Ladder {
  readonly surface: Surface;
  mode: Mode = "steps";
  selected = -1;  // place in the selection
  repairs: Repairs | null = null;
  calls: Map<number, string> | null = null;  // of rrdma::rpc, by packet
  shownUntil = Infinity;  // during playback, later places are hidden
  onSelect: (place: number) => void = () => {};
  onView: () => void = () => {};
  private hovered = -1;
  private selection: Selection | null = null;
  private names: EndNames = { a: ["", ""], b: ["", ""] };
  private from = 0;  // the visible range: places, or nanoseconds
  private to = 1;
  private fresh = true;  // the user has not moved yet: the first size decides
  private pointers = new Map<number, { x: number; y: number }>();
  private moved = 0;

  constructor() {
    this.surface = new Surface({ class: "ladder", tabindex: 0, role: "application", "aria-label": "ladder of packets" }, () => this.draw(), () => { if (this.fresh) this.home(); });
    this.listen();
  }

  show(selection: Selection, names: EndNames): void {
    this.selection = selection;
    this.names = names;
    this.selected = this.hovered = -1;
    this.shownUntil = Infinity;
    const n = selection.size;
    Object.assign(this.surface.canvas.dataset, { packets: n, naks: selection.count("nak", 0, n), repeats: selection.count("repeat", 0, n), lost: selection.count("lost", 0, n), faults: selection.count("fault", 0, n), events: selection.capture.header.events.length });
    this.home();
  }

  get view(): { from: number; to: number } | null {
    const s = this.selection;
    if (!s || s.size === 0) return null;
    if (this.mode === "time") return { from: this.from, to: this.to };
    const at = (place: number) => s.time[Math.min(s.size - 1, Math.max(0, Math.floor(place)))]!;
    return { from: at(this.from), to: at(this.to) };
  }

  home(): void {
    const s = this.selection;
    const body = Math.max(100, this.surface.height - headRoom);
    if (!s) return;
    if (this.mode === "steps") this.look(-headGap, -headGap + body / rowsWanted);
    else this.fit();
    this.fresh = true;
  }
  fit(): void {
    const s = this.selection;
    if (!s) return;
    if (this.mode === "steps") this.look(-headGap, s.size);
    else { const margin = Math.max(500, (s.last - s.first) * 0.035); this.look(s.first - margin, s.last + margin); }
  }
  setMode(mode: Mode): void {
    if (mode === this.mode || !this.selection) return;
    const s = this.selection;
    const middle = this.selected >= 0 ? this.selected : Math.max(0, Math.floor(this.placeAt((this.from + this.to) / 2)));
    const places = Math.max(3, this.placeAt(this.to) - this.placeAt(this.from));
    this.mode = mode;
    if (s.size === 0) return;
    const low = Math.max(0, Math.floor(middle - places / 2)), high = Math.min(s.size - 1, Math.ceil(middle + places / 2));
    if (mode === "steps") this.look(middle - places / 2, middle + places / 2);
    else { const margin = Math.max(500, (s.time[high]! - s.time[low]!) * 0.05); this.look(s.time[low]! - margin, s.time[high]! + margin); }
  }
  // Gives each packet a row tall enough for its label.
  makeReadable(): void {
    this.setMode("steps");
    const rows = Math.max(100, this.surface.height - headRoom) / rowsWanted, top = this.selected >= 0 ? this.selected - 2 : this.from;
    if (this.to - this.from > rows * 1.5) this.look(top, top + rows);
  }
  zoom(factor: number, around = 0.5): void {
    const pivot = this.from + (this.to - this.from) * around;
    this.look(pivot - (pivot - this.from) / factor, pivot + (this.to - pivot) / factor);
  }
  pan(fraction: number): void {
    const by = (this.to - this.from) * fraction;
    this.look(this.from + by, this.to + by);
  }
  // Takes a time of the capture in both modes.
  centre(time: number): void {
    const s = this.selection;
    if (!s) return;
    const middle = this.mode === "time" ? time : s.lowerBound(time);
    const half = (this.to - this.from) / 2;
    this.look(middle - half, middle + half);
  }
  get selectedPacket(): number { return this.selection && this.selected >= 0 ? this.selection.packets[this.selected]! : -1; }
  // Selects a packet and zooms in until its label is readable.
  reveal(place: number): void {
    const s = this.selection;
    if (!s || place < 0 || place >= s.size) return;
    const rows = Math.max(100, this.surface.height - headRoom) / rowsWanted;
    // Near the top: in a narrow window, the fields cover the lower part.
    const low = Math.max(0, Math.floor(place - rows * 0.15)), high = Math.min(s.size - 1, Math.ceil(place + rows * 0.85));
    if (this.mode === "steps" ? this.to - this.from > rows * 1.5 : this.placeAt(this.to) - this.placeAt(this.from) > rows * 3) {
      if (this.mode === "steps") this.look(place - rows * 0.15, place + rows * 0.85);
      else { const margin = Math.max(500, (s.time[high]! - s.time[low]!) * 0.05); this.look(s.time[low]! - margin, s.time[high]! + margin); }
    }
    this.select(place);
  }
  select(place: number, reveal = true): void {
    const s = this.selection;
    if (!s || place < 0 || place >= s.size) return;
    this.selected = place;
    if (reveal) {
      const at = this.positionOf(place), room = this.to - this.from;
      // During playback a caption covers the lower part; in a narrow window the fields do (style.css).
      const sheet = matchMedia("(max-width: 1000px)").matches, covered = sheet ? 0.7 : this.shownUntil === Infinity ? 0.12 : 0.4;
      if (at < this.from + room * 0.08 || at > this.to - room * covered) this.look(at - room * (sheet ? 0.15 : 0.3), at + room * (sheet ? 0.85 : 0.7));
    }
    this.onSelect(place);
    this.surface.redraw();
  }

  private look(from: number, to: number): void {
    const s = this.selection;
    if (!s) return;
    const least = this.mode === "steps" ? 4 : 20;
    const [low, high] = this.mode === "steps" ? [-1, Math.max(s.size, 1)] : [s.first, s.last];
    const slack = this.mode === "steps" ? 2 : Math.max(1000, (high - low) * 0.05);
    let size = Math.max(least, to - from);
    const whole = Math.max(high - low + 2 * slack, this.mode === "steps" ? (this.surface.height - headRoom) / rowsWanted : 0);
    if (size > whole) size = whole;
    const middle = (from + to) / 2;
    let start = middle - size / 2;
    if (start + size > high + slack) start = high + slack - size;
    if (start < low - slack || size >= whole) start = Math.max(low - slack, Math.min(start, low - slack));
    if (this.mode === "steps" && start < -headGap) start = -headGap;
    this.from = start;
    this.to = start + size;
    this.fresh = false;
    this.onView();
    this.surface.redraw();
    this.surface.canvas.dataset.places = String(Math.round(this.placeAt(this.to) - this.placeAt(this.from)));
  }
  private positionOf(place: number): number { return this.mode === "steps" ? place : this.selection!.time[place]!; }
  private placeAt(position: number): number { return this.mode === "steps" ? position : this.selection!.lowerBound(position); }
  private y(position: number): number {
    return headRoom + (position - this.from) / (this.to - this.from) * (this.surface.height - headRoom);
  }
  private lines(): { a: number; b: number; gutter: number } {
    const w = this.surface.width;
    const gutter = w < 520 ? 66 : 104;
    return { gutter, a: gutter + (w < 520 ? 14 : 34), b: w - (w < 520 ? 22 : 48) };
  }

  private draw(): void {
    const s = this.selection, { context: c, width, height } = this.surface;
    if (!s) return;
    const p = palette(), x = this.lines();
    const body = height - headRoom;
    c.save();
    c.beginPath();
    c.rect(0, headRoom, width, body);
    c.clip();
    // In time mode, also include packets in flight at the upper edge.
    const start = Math.max(0, this.mode === "steps" ? Math.floor(this.from - 1) : s.lowerBound(this.from) - 64);
    const end = Math.min(s.size, this.shownUntil + 1, Math.ceil(this.mode === "steps" ? this.to + 1 : s.lowerBound(this.to) + 1));
    c.strokeStyle = p.line;
    c.lineWidth = 2;
    c.beginPath();
    for (const line of [x.a, x.b]) { c.moveTo(line, headRoom); c.lineTo(line, height); }
    c.stroke();
    if (end - start <= arrowsMax) this.drawArrows(c, p, x, start, end);
    else this.drawBars(c, p, x);
    this.drawAxis(c, p, x, start, end);
    this.drawEvents(c, p, x);
    c.restore();
    this.drawNames(c, p, x);
  }

  private drawNames(c: CanvasRenderingContext2D, p: Palette, x: { a: number; b: number }): void {
    const { width } = this.surface;
    const narrow = width < 520;
    c.fillStyle = p.panel;
    c.fillRect(0, 0, width, headRoom - 1);
    c.fillStyle = p.line;
    c.fillRect(0, headRoom - 1, width, 1);
    c.textBaseline = "alphabetic";
    for (const [side, line, align] of [["a", x.a, "left"], ["b", x.b, "right"]] as const) {
      c.textAlign = align;
      const at = align === "left" ? line - (narrow ? 6 : 9) : line + (narrow ? 6 : 9);
      c.fillStyle = p.ink;
      c.font = `600 ${narrow ? 12 : 13}px ${p.sans}`;
      const room = (x.b - x.a) / 2;
      c.fillText(fitted(c, this.names[side][0], room), at, 21);
      c.fillStyle = p.faint;
      c.font = `12px ${p.mono}`;
      // The QP matters more than the address.
      const name = this.names[side][1];
      c.fillText(c.measureText(name).width > room ? fitted(c, name.slice(name.lastIndexOf("·") + 1).trim(), room) : name, at, 38);
    }
  }

  private colour(p: Palette, marks: number, cm: number): string {
    if (marks & (Mark.nak | Mark.bad)) return p.nak;
    if (marks & Mark.rnr) return p.rnr;
    if (marks & Mark.repeat) return p.repeat;
    if (cm) return p.cm;
    return marks & Mark.request ? p.request : p.answer;
  }

  private drawArrows(c: CanvasRenderingContext2D, p: Palette, x: { a: number; b: number }, start: number, end: number): void {
    const s = this.selection!, { capture } = s, { height } = this.surface;
    const step = this.mode === "steps" ? (height - headRoom) / (this.to - this.from) : 0;
    const partner = this.selected >= 0 ? s.placeOf(capture.partner[s.packets[this.selected]!]!) : -1;
    const scale = (height - headRoom) / (this.to - this.from);
    let lastLabel = -1e9;
    c.font = `12px ${p.mono}`;
    c.textBaseline = "alphabetic";
    if (partner >= 0 && this.selected >= 0) this.drawPairing(c, p, x, this.selected, partner);
    for (let k = start; k < end; ++k) {
      const i = s.packets[k]!, marks = capture.marks[i]!, fromB = (marks & Mark.fromB) !== 0;
      const travel = capture.travel[i]!;
      const y0 = this.y(this.positionOf(k));
      const slope = this.mode === "steps" ? Math.min(9, step * 0.4) : Number.isNaN(travel) ? 5 : Math.min(travel * scale, 4000);
      if (y0 > height + 20 || y0 + slope < headRoom - 20) continue;
      const chosen = k === this.selected, hovered = k === this.hovered;
      const faded = this.selected >= 0 && !chosen && k !== partner && !hovered;
      const x0 = fromB ? x.b : x.a, whole = fromB ? x.a - x.b : x.b - x.a;
      const lost = (marks & Mark.lost) !== 0;
      const reach = lost ? 0.72 : 1;
      const x1 = x0 + whole * reach, y1 = y0 + slope * reach;
      c.strokeStyle = c.fillStyle = this.colour(p, marks, capture.cm[i]!);
      c.globalAlpha = faded ? 0.78 : 1;
      c.lineWidth = chosen ? 3 : hovered ? 2.4 : marks & (Mark.nak | Mark.rnr) ? 2 : 1.4;
      c.setLineDash(marks & Mark.repeat ? [7, 4] : lost ? [2, 4] : []);
      c.beginPath();
      c.moveTo(x0, y0);
      c.lineTo(x1, y1);
      c.stroke();
      c.setLineDash([]);
      if (lost) this.cross(c, p, x1, y1);
      else this.head(c, x1, y1, Math.atan2(y1 - y0, x1 - x0), chosen ? 10 : 8);
      // Avoid the label: draw behind the cross, or near the head.
      if (marks & Mark.remark) this.fault(c, p, lost ? x1 + (fromB ? -15 : 15) : x1 + (fromB ? 26 : -26), lost ? y1 : y1 - 9);
      if (marks & Mark.gap) this.gap(c, p, x0 + (fromB ? 13 : -13), y0);
      if (chosen) { c.beginPath(); c.arc(x0, y0, 5, 0, 7); c.fill(); }
      const roomy = this.mode === "steps" ? step >= labelRoom : y0 - lastLabel >= labelRoom;
      if (roomy || chosen || hovered) { this.label(c, p, i, x, y0, slope, fromB, chosen || hovered); lastLabel = y0; }
      c.globalAlpha = 1;
    }
  }

  private label(c: CanvasRenderingContext2D, p: Palette, i: number, x: { a: number; b: number }, y: number, slope: number, fromB: boolean, strong: boolean): void {
    const { capture } = this.selection!, marks = capture.marks[i]!;
    const symbol = (marks & Mark.lost ? "✕ " : "") + (marks & Mark.repeat ? "↻ " : "") + (marks & (Mark.nak | Mark.rnr) ? "⊘ " : "");
    const size = capture.octets[i]! && !capture.cm[i] ? ` · ${octets(capture.octets[i]!)}` : "";
    const call = this.calls?.get(i), repair = this.repairs?.label(i) ?? "";
    const name = symbol + capture.label(i) + (call ? ` ${call}` : "");
    const psn = capture.connection[i] === none ? "" : `  ${capture.cm[i] ? "" : "psn " + capture.psnText(i)}`;
    const room = x.b - x.a;
    c.font = `${strong || marks & (Mark.nak | Mark.rnr | Mark.lost) ? "600 " : ""}12px ${p.mono}`;
    const rest = psn + size + repair;
    let text = name + rest;
    let width = c.measureText(text).width;
    if (width > room - 40) { text = name; width = c.measureText(text).width; }
    const left = fromB ? x.b - 22 - width : x.a + 22;
    // Just above the arrow's highest point, which is its start.
    const at = y + slope * 22 / room - 4;
    c.fillStyle = p.panel;
    c.globalAlpha *= 0.86;
    c.fillRect(left - 4, at - 10, width + 8, 12);
    c.globalAlpha = 1;
    c.fillStyle = this.colour(p, marks, capture.cm[i]!);
    c.textAlign = "left";
    c.fillText(name, left, at);
    if (text !== name) { c.fillStyle = strong ? p.ink : p.faint; const past = c.measureText(name).width; c.font = `12px ${p.mono}`; c.fillText(rest, left + past, at); }
  }

  private head(c: CanvasRenderingContext2D, x: number, y: number, angle: number, size: number): void {
    c.beginPath();
    c.moveTo(x, y);
    c.lineTo(x - size * Math.cos(angle - 0.38), y - size * Math.sin(angle - 0.38));
    c.lineTo(x - size * Math.cos(angle + 0.38), y - size * Math.sin(angle + 0.38));
    c.closePath();
    c.fill();
  }
  private cross(c: CanvasRenderingContext2D, p: Palette, x: number, y: number): void {
    c.save();
    c.strokeStyle = p.lost;
    c.lineWidth = 2.4;
    c.beginPath();
    c.moveTo(x - 5, y - 5); c.lineTo(x + 5, y + 5); c.moveTo(x + 5, y - 5); c.lineTo(x - 5, y + 5);
    c.stroke();
    c.restore();
  }
  // Marks an injected fault.
  private fault(c: CanvasRenderingContext2D, p: Palette, x: number, y: number): void {
    c.save();
    c.fillStyle = p.rnr;
    c.beginPath();
    c.moveTo(x + 2, y - 7); c.lineTo(x - 5, y + 2); c.lineTo(x - 0.5, y + 2); c.lineTo(x - 2, y + 8); c.lineTo(x + 5, y - 1.5); c.lineTo(x + 0.5, y - 1.5); c.closePath();
    c.fill();
    c.restore();
  }
  private gap(c: CanvasRenderingContext2D, p: Palette, x: number, y: number): void {
    c.save();
    c.strokeStyle = p.lost;
    c.lineWidth = 1.6;
    c.beginPath();
    c.moveTo(x, y - 5); c.lineTo(x + 5, y); c.lineTo(x, y + 5); c.lineTo(x - 5, y); c.closePath();
    c.stroke();
    c.restore();
  }
  // Joins a request and its answer along the line of the answering end.
  private drawPairing(c: CanvasRenderingContext2D, p: Palette, x: { a: number; b: number }, one: number, other: number): void {
    const s = this.selection!, { capture } = s;
    const [request, answer] = one < other ? [one, other] : [other, one];
    const line = capture.marks[s.packets[answer]!]! & Mark.fromB ? x.b : x.a;
    c.save();
    c.strokeStyle = p.accent;
    c.globalAlpha = 0.35;
    c.lineWidth = 8;
    c.lineCap = "round";
    c.beginPath();
    c.moveTo(line, this.y(this.positionOf(request)));
    c.lineTo(line, this.y(this.positionOf(answer)));
    c.stroke();
    c.restore();
  }

  // Too many packets for arrows: draws a bar for every two screen lines with the number and fate of the packets.
  private drawBars(c: CanvasRenderingContext2D, p: Palette, x: { a: number; b: number }): void {
    const s = this.selection!, { height } = this.surface, body = height - headRoom, thick = 3;
    const rows = Math.ceil(body / thick), edges = new Uint32Array(rows + 1);
    for (let r = 0; r <= rows; ++r) {
      const position = this.from + (this.to - this.from) * (r * thick / body);
      edges[r] = Math.max(0, Math.min(s.size, Math.ceil(this.placeAt(position)), this.shownUntil + 1));
    }
    let most = 1;
    for (let r = 0; r < rows; ++r) most = Math.max(most, edges[r + 1]! - edges[r]!);
    const room = (x.b - x.a) / 2 - 46, long = (n: number) => n === 0 ? 0 : Math.max(2, room * Math.log1p(n) / Math.log1p(most));
    const middle = (x.a + x.b) / 2;
    for (let r = 0; r < rows; ++r) {
      const from = edges[r]!, to = edges[r + 1]!;
      if (from === to) continue;
      const y = headRoom + r * thick;
      c.globalAlpha = 0.8;
      c.fillStyle = p.request;
      c.fillRect(x.a + 2, y, long(s.count("a", from, to)), thick - 0.6);
      c.fillStyle = p.answer;
      const b = long(s.count("b", from, to));
      c.fillRect(x.b - 2 - b, y, b, thick - 0.6);
      c.globalAlpha = 1;
      const repeat = s.count("repeat", from, to), nak = s.count("nak", from, to), lost = s.count("lost", from, to);
      if (repeat) { c.fillStyle = p.repeat; const w = 4 + 26 * Math.log1p(repeat) / Math.log1p(most); c.fillRect(middle - w / 2, y, w, thick - 0.4); }
      if (nak) { c.fillStyle = p.nak; c.fillRect(middle - 38, y, 7, thick); }
      if (lost) { c.fillStyle = p.lost; c.fillRect(middle + 31, y, 7, thick); }
      if (s.count("fault", from, to)) { c.fillStyle = p.rnr; c.fillRect(middle + 42, y, 7, thick); }
    }
  }

  private drawAxis(c: CanvasRenderingContext2D, p: Palette, x: { gutter: number }, start: number, end: number): void {
    const s = this.selection!, { height } = this.surface, body = height - headRoom;
    c.font = `11px ${p.mono}`;
    c.textAlign = "right";
    c.textBaseline = "middle";
    c.fillStyle = p.faint;
    c.strokeStyle = p.line;
    c.lineWidth = 1;
    if (this.mode === "time") {
      const step = niceStep((this.to - this.from) / (body / 64));
      for (let at = Math.ceil(this.from / step) * step; at < this.to; at += step) {
        const y = Math.round(this.y(at)) + 0.5;
        c.fillText(timeAt(at, step), x.gutter - 12, y);
        c.beginPath(); c.moveTo(x.gutter - 7, y); c.lineTo(x.gutter, y); c.stroke();
      }
      return;
    }
    const pixels = body / (this.to - this.from), every = Math.max(1, Math.ceil(22 / pixels));
    for (let k = Math.max(0, Math.ceil(start / every) * every); k < end; k += every) {
      const y = this.y(k), now = s.time[k]!;
      const gap = k > 0 && every === 1 ? now - s.time[k - 1]! : 0;
      const same = every === 1 && k > start && gap === 0;
      if (same) { c.fillStyle = p.line; c.fillText("·", x.gutter - 12, y); continue; }
      c.fillStyle = gap > 1e6 ? p.ink : p.faint;
      c.fillText(every > 1 || gap < 1e6 ? duration(now, x.gutter < 80 ? 4 : 6) : "+" + duration(gap), x.gutter - 12, y);
    }
  }

  // Draws events that are no packets (injected faults) as a line across, between the neighbouring packets.
  private drawEvents(c: CanvasRenderingContext2D, p: Palette, x: { a: number; b: number }): void {
    const s = this.selection!, { height } = this.surface;
    let below = -1e9;
    for (const event of s.capture.header.events) {
      const time = event.time - s.origin, place = s.lowerBound(time);
      if (place > this.shownUntil + 1) break;
      const at = this.y(this.mode === "time" ? time : place - 0.85);
      if (at < headRoom - 20) continue;
      const y = Math.max(at, below + 16);
      if (y > height) break;
      below = y;
      c.strokeStyle = c.fillStyle = p.rnr;
      c.lineWidth = 1.2;
      c.setLineDash([3, 3]);
      c.beginPath(); c.moveTo(x.a - 8, y); c.lineTo(x.b + 8, y); c.stroke();
      c.setLineDash([]);
      c.font = `600 12px ${p.sans}`;
      const room = x.b - x.a - 60;
      const text = fitted(c, event.text, room);
      const width = c.measureText(text).width, left = (x.a + x.b - width) / 2;
      c.fillStyle = p.panel;
      c.fillRect(left - 22, y - 8, width + 30, 16);
      this.fault(c, p, left - 11, y);
      c.fillStyle = p.rnr;
      c.textAlign = "left";
      c.textBaseline = "middle";
      c.fillText(text, left, y);
    }
  }

  private hit(x: number, y: number): number {
    const s = this.selection;
    if (!s || y < headRoom || s.size === 0) return -1;
    const position = this.from + (y - headRoom) / (this.surface.height - headRoom) * (this.to - this.from);
    const last = Math.min(s.size - 1, this.shownUntil);
    if (this.mode === "steps") { const k = Math.round(position - 0.15); return k >= 0 && k <= last ? k : -1; }
    const lines = this.lines(), share = (x - lines.a) / (lines.b - lines.a);
    let best = -1, distance = 12;
    const middle = s.lowerBound(position);
    for (let k = Math.max(0, middle - 200); k <= Math.min(last, middle + 200); ++k) {
      const i = s.packets[k]!, fromB = (s.capture.marks[i]! & Mark.fromB) !== 0;
      const travel = s.capture.travel[i]!, scale = (this.surface.height - headRoom) / (this.to - this.from);
      const slope = Number.isNaN(travel) ? 5 : Math.min(travel * scale, 4000);
      const d = Math.abs(this.y(s.time[k]!) + slope * (fromB ? 1 - share : share) - y);
      if (d < distance) { distance = d; best = k; }
    }
    return best;
  }

  private listen(): void {
    const canvas = this.surface.canvas;
    const at = (event: MouseEvent) => this.surface.at(event);
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const body = this.surface.height - headRoom;
      const amount = event.deltaMode === 1 ? event.deltaY * 20 : event.deltaY;
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-amount * 0.0035), Math.max(0, (at(event).y - headRoom) / body));
      else this.pan(amount / body);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, at(event));
      this.moved = 0;
      canvas.focus({ preventScroll: true });
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = at(event), before = this.pointers.get(event.pointerId), body = this.surface.height - headRoom;
      if (before) {
        const others = [...this.pointers].filter(([id]) => id !== event.pointerId);
        if (others.length === 1) {
          const other = others[0]![1];
          const apart = (a: { y: number }) => Math.max(20, Math.abs(a.y - other.y));
          this.zoom(apart(now) / apart(before), Math.max(0, (other.y - headRoom) / body));
        } else this.pan((before.y - now.y) / body);
        this.moved += Math.abs(now.y - before.y) + Math.abs(now.x - before.x);
        this.pointers.set(event.pointerId, now);
        return;
      }
      const over = this.hit(now.x, now.y);
      if (over !== this.hovered) { this.hovered = over; canvas.classList.toggle("over", over >= 0); this.surface.redraw(); }
    });
    const release = (event: PointerEvent) => {
      if (!this.pointers.delete(event.pointerId) || this.moved > 6 || event.type === "pointercancel") return;
      const { x, y } = at(event), place = this.hit(x, y);
      if (place >= 0) this.select(place, false);
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => { if (this.hovered >= 0) { this.hovered = -1; this.surface.redraw(); } });
    canvas.addEventListener("dblclick", (event) => this.zoom(2.5, Math.max(0, (at(event).y - headRoom) / (this.surface.height - headRoom))));
  }

  // One sentence about a packet, for screen readers and for playback.
  describe(place: number): string {
    const s = this.selection!, { capture } = s, i = s.packets[place]!, marks = capture.marks[i]!;
    const [from, to] = marks & Mark.fromB ? [this.names.b[0], this.names.a[0]] : [this.names.a[0], this.names.b[0]];
    return currentLanguage() === "zh"
      ? `第 ${count(place + 1)} 个，共 ${count(s.size)} 个：${from} 发给 ${to}：${capture.label(i)}，psn ${capture.psnText(i)}`
      : `${count(place + 1)} of ${count(s.size)}: ${from} to ${to}: ${capture.label(i)}, psn ${capture.psnText(i)}`;
  }
}
