// The whole connection in one strip: the rate of each end, the density of retransmissions under it, and the range
// that the ladder shows.
import type { Selection } from "./capture";
import { palette, Surface } from "./dom";
import { niceStep, timeAt } from "./format";

export class Overview {
  readonly surface: Surface;
  onMove: (time: number) => void = () => {};
  private selection: Selection | null = null;
  private view: { from: number; to: number } | null = null;

  constructor() {
    this.surface = new Surface({ class: "overview", "aria-label": "overview in time" }, () => this.draw());
    const move = (event: PointerEvent) => {
      const s = this.selection;
      if (!s || !(event.buttons & 1)) return;
      const box = this.surface.canvas.getBoundingClientRect();
      this.onMove(s.first + (s.last - s.first) * Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)));
    };
    this.surface.canvas.addEventListener("pointerdown", (event) => { this.surface.canvas.setPointerCapture(event.pointerId); move(event); });
    this.surface.canvas.addEventListener("pointermove", move);
  }

  show(selection: Selection): void { this.selection = selection; this.surface.redraw(); }
  setView(view: { from: number; to: number } | null): void { this.view = view; this.surface.redraw(); }

  private draw(): void {
    const s = this.selection, { context: c, width, height } = this.surface;
    if (!s || s.size === 0) return;
    const p = palette(), span = Math.max(1, s.last - s.first);
    const bins = Math.max(1, Math.floor(width / 3)), edges = new Uint32Array(bins + 1);
    for (let b = 0; b <= bins; ++b) edges[b] = b === bins ? s.size : s.lowerBound(s.first + span * b / bins);
    let most = 1, hottest = 1;
    for (let b = 0; b < bins; ++b) {
      most = Math.max(most, s.count("a", edges[b]!, edges[b + 1]!), s.count("b", edges[b]!, edges[b + 1]!));
      hottest = Math.max(hottest, s.count("repeat", edges[b]!, edges[b + 1]!));
    }
    const heatHeight = 11, axis = 15, middle = (height - heatHeight - axis - 3) / 2, tall = (n: number) => n ? Math.max(1, (middle - 2) * Math.sqrt(n / most)) : 0;
    const heatTop = height - heatHeight - axis;
    c.fillStyle = p.line;
    c.globalAlpha = 0.45;
    c.fillRect(0, heatTop, width, heatHeight);
    c.globalAlpha = 1;
    for (let b = 0; b < bins; ++b) {
      const from = edges[b]!, to = edges[b + 1]!;
      if (from === to) continue;
      const x = b * width / bins, w = Math.max(1, width / bins - 0.8);
      c.fillStyle = p.request;
      const up = tall(s.count("a", from, to));
      c.fillRect(x, middle - up, w, up);
      c.fillStyle = p.answer;
      c.fillRect(x, middle + 1, w, tall(s.count("b", from, to)));
      const repeat = s.count("repeat", from, to), nak = s.count("nak", from, to);
      if (repeat) { c.globalAlpha = 0.3 + 0.7 * Math.sqrt(repeat / hottest); c.fillStyle = p.repeat; c.fillRect(x, heatTop, w + 0.8, heatHeight); c.globalAlpha = 1; }
      if (s.count("fault", from, to)) { c.fillStyle = p.rnr; c.fillRect(x, heatTop - 6, Math.max(2, w), 3); }
      if (nak) { c.fillStyle = p.nak; c.fillRect(x, heatTop - 3, Math.max(2, w), 3); }
    }
    c.fillStyle = p.rnr;
    for (const event of s.capture.header.events) {
      const x = (event.time - s.origin - s.first) / span * width;
      if (x >= -1 && x <= width + 1) c.fillRect(Math.min(Math.max(x, 0), width - 2), 0, 2, heatTop + heatHeight);
    }
    c.fillStyle = p.faint;
    c.font = `11px ${p.mono}`;
    c.textBaseline = "alphabetic";
    const step = niceStep(span / Math.max(1, width / 130));
    for (let at = Math.ceil(s.first / step) * step; at <= s.last; at += step) {
      const x = (at - s.first) / span * width;
      c.textAlign = x > width - 40 ? "right" : x < 30 ? "left" : "center";
      c.fillText(timeAt(at, step), x, height - 3);
    }
    if (this.view) {
      const x0 = (this.view.from - s.first) / span * width, x1 = Math.max(x0 + 3, (this.view.to - s.first) / span * width);
      c.fillStyle = p.accent;
      c.globalAlpha = 0.13;
      c.fillRect(x0, 0, x1 - x0, height - axis);
      c.globalAlpha = 1;
      c.strokeStyle = p.accent;
      c.lineWidth = 1.5;
      c.strokeRect(x0 + 0.75, 0.75, Math.max(1.5, x1 - x0 - 1.5), height - axis - 1.5);
    }
  }
}
