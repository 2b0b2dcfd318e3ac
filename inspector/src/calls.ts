// The calls of rrdma::rpc: one row each with its method, its answer and a waterfall of where the time went.
import { type Capture, none, type RpcCall } from "./capture";
import { h, svg } from "./dom";
import { count, duration, octets } from "./format";
import { t } from "./text";

const shownMax = 1000;

// The stages of a call: the way there, the server's work, the way back. A stage that the capture does not show has no
// length; `whole` is then the only figure.
interface Stages { start: number; there: number; work: number; back: number; whole: number }

export function stagesOf(capture: Capture, call: RpcCall): Stages | null {
  const start = capture.time[call.asked]!;
  if (call.answered === null) return null;
  const there = capture.travel[call.asked]!, back = capture.travel[call.answered]!, left = capture.time[call.answered]!;
  const arrived = start + (Number.isNaN(there) ? 0 : there), end = left + (Number.isNaN(back) ? 0 : back);
  return { start, there: arrived - start, work: left - arrived, back: end - left, whole: end - start };
}

function waterfall(stages: Stages, from: number, span: number): SVGElement {
  const at = (time: number) => (time - from) / span * 1000, wide = (length: number, least: number) => Math.max(least, length / span * 1000);
  const parts: [string, number, number][] = [["there", stages.start, stages.there], ["work", stages.start + stages.there, stages.work], ["back", stages.start + stages.there + stages.work, stages.back]];
  return svg("svg", { viewBox: "0 0 1000 14", preserveAspectRatio: "none", class: "waterfall", role: "img" },
    ...parts.filter(([, , length]) => length > 0).map(([kind, begin, length]) => svg("rect", { class: kind, x: Math.min(997, at(begin)), y: kind === "work" ? 2 : 5, width: wide(length, 2), height: kind === "work" ? 10 : 4 })));
}

export function callsView(capture: Capture, goTo: (packet: number) => void): HTMLElement {
  const { rpc } = capture.header;
  if (!rpc.length) return h("div", { class: "problems" }, h("p", { class: "empty" }, t("no_calls")));
  const all = rpc.map((call) => ({ call, stages: stagesOf(capture, call) }));
  const from = Math.min(...rpc.slice(0, shownMax).map((call) => capture.time[call.asked]!));
  const until = all.slice(0, shownMax).reduce((most, { call, stages }) => Math.max(most, stages ? stages.start + stages.whole : capture.time[call.asked]!), from + 1);
  const row = ({ call, stages }: (typeof all)[number]) => h("tr", { "data-call": call.asked, tabindex: 0, onclick: () => goTo(call.asked), onkeydown: (event: KeyboardEvent) => { if (event.key === "Enter") goTo(call.asked); } },
    h("td", {}, h("b", {}, call.method), h("small", {}, ` ${octets(call.octets[0])} → ${octets(call.octets[1])}${call.items ? ` · ${t("items", count(call.items))}` : ""}`)),
    h("td", {}, h("span", { class: `badge ${call.status === "OK" ? "answer" : "nak"}` }, call.status || t("no_answer"))),
    h("td", { class: "n" }, duration(capture.time[call.asked]! - from, 4)),
    h("td", { class: "n" }, stages ? duration(stages.whole) : "–"),
    h("td", { class: "bars", title: stages ? t("stages", duration(stages.there), duration(stages.work), duration(stages.back)) : "" }, stages ? waterfall(stages, from, until - from) : null));
  return h("div", { class: "problems calls" }, h("p", { class: "about" }, t("calls_about")),
    h("div", { class: "legend" }, ...(["there", "work", "back"] as const).map((kind) => h("span", { class: "key" }, h("i", { class: `swatch ${kind}` }), t(`stage_${kind}`)))),
    h("div", { class: "pairs" }, h("table", {}, h("thead", {}, h("tr", {}, ...(["method", "status", "began", "took", "waterfall"] as const).map((word) => h("th", {}, t(word))))), h("tbody", {}, ...all.slice(0, shownMax).map(row)))),
    all.length > shownMax ? h("p", { class: "hint" }, t("more", count(all.length - shownMax))) : null);
}

// The calls of the packet, for the ladder: the call that it asks or answers.
export function callLabels(capture: Capture): Map<number, string> {
  const labels = new Map<number, string>();
  for (const call of capture.header.rpc) {
    labels.set(call.asked, call.method);
    if (call.answered !== null && call.answered !== none) labels.set(call.answered, `${call.status} ← ${call.method}`);
  }
  return labels;
}
