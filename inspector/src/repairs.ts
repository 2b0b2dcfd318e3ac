// The cost of losses: the packet that repaired each, what made its sender repeat it, and the messages that waited.
import { type Capture, Mark } from "./capture";
import { h } from "./dom";
import { count, duration } from "./format";
import { t, type Word } from "./text";

// Keep in sync with Repair::By of src/inspect/analysis.h.
const causes: Word[] = ["by_nothing", "by_nak", "by_probe", "by_timeout"];

export interface Repair { lost: number; repair: number | null; by: number; delayed: number; took: number }

export class Repairs {
  private readonly list: Repair[];
  private readonly byLost = new Map<number, Repair>();
  private readonly byRepair = new Map<number, Repair>();

  constructor(private readonly capture: Capture) {
    this.list = capture.header.repairs.map(([lost, repair, by, delayed]) => ({ lost, repair, by, delayed, took: repair === null ? NaN : capture.time[repair]! - capture.time[lost]! }));
    for (const one of this.list) {
      if (!this.byLost.has(one.lost)) this.byLost.set(one.lost, one);
      if (one.repair !== null) this.byRepair.set(one.repair, one);
    }
  }

  of(packet: number): Repair | undefined { return this.byLost.get(packet); }
  by(packet: number): Repair | undefined { return this.byRepair.get(packet); }

  // "repaired by a NAK after 1.2 ms, 3 messages waited"
  static text(one: Repair): string {
    const how = one.repair === null ? t("by_nothing") : t("repaired", t(causes[one.by]!), duration(one.took));
    return one.delayed ? `${how}, ${one.delayed === 1 ? t("waited_one") : t("waited", count(one.delayed))}` : how;
  }
  // Short, for the ladder: "↷ 1.2 ms NAK".
  label(packet: number): string {
    const one = this.byLost.get(packet);
    if (!one || !(this.capture.marks[packet]! & (Mark.lost | Mark.gap))) return "";
    return one.repair === null ? "" : `  ↷ ${duration(one.took)} ${t((["by_nothing", "nak_short", "probe_short", "timeout_short"] as const)[one.by]!)}`;
  }

  // For the card of a connection's losses: how many were repaired by what, and how long that took.
  table(connection: number | null): HTMLElement | null {
    const mine = this.list.filter((one) => connection === null || this.capture.connection[one.lost] === connection);
    if (!mine.length) return null;
    const rows = causes.map((word, by) => ({ word, list: mine.filter((one) => one.by === by) })).filter(({ list }) => list.length).reverse();
    const figures = (list: Repair[]) => { const sorted = list.map((one) => one.took).sort((x, y) => x - y); return Number.isNaN(sorted[0]) ? ["–", "–"] : [duration(sorted[sorted.length >> 1]!), duration(sorted[sorted.length - 1]!)]; };
    return h("section", { class: "repairs" }, h("h4", {}, t("repairs")), h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, t("repaired_by")), h("th", {}, t("losses")), h("th", {}, t("median")), h("th", {}, t("longest")), h("th", {}, t("delayed")))),
      h("tbody", {}, ...rows.map(({ word, list }) => { const [middle, most] = figures(list); return h("tr", { "data-by": word }, h("td", {}, t(word)), h("td", {}, count(list.length)), h("td", {}, middle), h("td", {}, most), h("td", {}, count(list.reduce((sum, one) => sum + one.delayed, 0)))); }))));
  }
}
