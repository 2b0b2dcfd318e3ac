// Lists beside and behind the ladder: connections with search, problems with remedies, handshakes.
import { type Capture, type Connection, type End, type Finding, type Handshake } from "./capture";
import { h, icon, replace, svg } from "./dom";
import { findPackets, isFilter, parseFilter } from "./filter";
import { count, duration, octets, qp, shortCount } from "./format";
import type { Repairs } from "./repairs";
import { of, t } from "./text";

const shownMax = 300;

const sum = (c: Connection, of: (end: End) => number) => of(c.a) + of(c.b);
// The program and its queue pair, if the capture names the program; otherwise the address.
export const endName = (end: End): [string, string] => {
  const pair = end.qp === 1 ? "QP 1 (CM)" : `QP ${qp(end.qp)}`;
  return end.owner ? [end.owner.replace(", process ", " "), `${end.address} · ${pair}`] : [end.address, pair];
};

export class ConnectionList {
  readonly element = h("nav", { class: "sidebar", "aria-label": "connections" });
  onChoose: (connection: number) => void = () => {};
  onPacket: (packet: number) => void = () => {};
  readonly search = h("input", { type: "search", "aria-label": "search", autocomplete: "off", spellcheck: "false" });
  private readonly list = h("ul", { role: "listbox", tabindex: 0 });
  private chosen = -1;
  private order: number[];

  constructor(private readonly capture: Capture) {
    const all = capture.header.connections;
    this.order = all.map((_, i) => i).sort((x, y) => sum(all[y]!, (e) => e.packets) - sum(all[x]!, (e) => e.packets));
    this.search.addEventListener("input", () => this.fill());
    this.list.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      event.preventDefault();
      event.stopPropagation();
      const shown = this.matching(), at = shown.indexOf(this.chosen) + (event.key === "ArrowDown" ? 1 : -1);
      if (shown[at] !== undefined) this.onChoose(shown[at]!);
    });
    this.build();
  }

  build(): void {
    const c = this.capture.header, notes = c.files.map((file) => h("div", { class: "file" }, h("b", { title: file.name }, file.name.replace(/^.*\//, "")),
      h("span", {}, t("of_file", count(file.packets - file.foreign)), file.foreign ? ` · ${t("foreign", count(file.foreign))}` : "", file.left_out ? ` · ${t("left_out", count(file.left_out))}` : ""),
      file.fault ? h("span", { class: "reason" }, file.fault) : null));
    this.search.placeholder = t("search");
    replace(this.element, h("div", { class: "files" }, ...notes, c.truncated ? h("span", { class: "reason" }, t("truncated")) : null),
      h("div", { class: "searchbox" }, icon("M9 3.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11M13 13l4 4"), this.search),
      h("h2", {}, t("connections"), h("span", { class: "amount" }, count(c.connections.length))), this.list);
    this.fill();
  }

  first(): number { return this.order.find((i) => this.capture.header.connections[i]!.a.qp !== 1) ?? this.order[0] ?? -1; }
  choose(connection: number): void { this.chosen = connection; this.fill(); this.list.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }); }

  private matching(): number[] {
    const terms = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!terms.length) return this.order;
    return this.order.filter((i) => {
      const c = this.capture.header.connections[i]!;
      const flags = [sum(c, (e) => e.naks) ? "nak" : "", sum(c, (e) => e.rnr) ? "rnr" : "", sum(c, (e) => e.repeats) ? "repeat" : "", sum(c, (e) => e.lost + e.missing) ? "lost loss" : "", c.bad ? "bad" : "", c.a.qp === 1 ? "cm" : ""];
      const text = [c.transport, c.a.address, c.b.address, qp(c.a.qp), qp(c.b.qp), c.a.qp, c.b.qp, c.a.owner, c.b.owner, ...flags].join(" ").toLowerCase();
      return terms.every((term) => text.includes(term));
    });
  }

  // Packets that a filter finds (psn=7, op=NAK, len>1000), each a link to its place in the ladder.
  private fillPackets(): void {
    const test = parseFilter(this.capture, this.search.value);
    if (!test) { replace(this.list, h("li", { class: "hint" }, t("filter_words"))); return; }
    const { packets, count: found } = findPackets(this.capture, test, shownMax);
    replace(this.list, h("li", { class: "hint", "data-found": found }, t("packets_found", count(found))), ...packets.map((i) => h("li", { role: "option", class: "packet", "data-packet": i, onclick: () => this.onPacket(i) },
      h("span", { class: "kind" }, String(i + 1)), h("div", { class: "ends" }, h("div", { class: "end" }, h("span", {}, this.capture.label(i)), h("code", {}, `psn ${this.capture.psn[i]}${this.capture.relativePsns ? ` (${this.capture.psnText(i)})` : ""}`)),
        h("div", { class: "end" }, h("span", {}, duration(this.capture.time[i]!, 5)), h("code", {}, octets(this.capture.octets[i]!)))))));
  }

  private fill(): void {
    if (isFilter(this.search.value)) { this.fillPackets(); return; }
    const shown = this.matching();
    replace(this.list, ...shown.slice(0, shownMax).map((i) => this.item(i)),
      shown.length > shownMax ? h("li", { class: "hint" }, t("more", count(shown.length - shownMax))) : null, shown.length ? null : h("li", { class: "hint" }, t("nothing_found")));
  }

  private item(i: number): HTMLElement {
    const c = this.capture.header.connections[i]!, naks = sum(c, (e) => e.naks + e.rnr), repeats = sum(c, (e) => e.repeats), losses = sum(c, (e) => e.lost + e.missing);
    const line = (end: End) => h("div", { class: "end", title: end.owner }, h("span", {}, end.owner ? `${end.owner.replace(/, process .*/, "")} · ${end.address}` : end.address), h("code", {}, end.qp === 1 ? "QP 1" : qp(end.qp)));
    return h("li", { role: "option", "aria-selected": i === this.chosen ? "true" : "false", "data-connection": i, onclick: () => this.onChoose(i) },
      h("span", { class: `kind ${c.a.qp === 1 ? "cm" : ""}` }, c.a.qp === 1 ? "CM" : c.transport), h("div", { class: "ends" }, line(c.a), line(c.b)),
      h("div", { class: "numbers" }, h("span", {}, `${shortCount(sum(c, (e) => e.packets))} ${t("packets")}`), h("span", {}, octets(sum(c, (e) => e.octets))),
        repeats ? h("span", { class: "badge repeat", "data-repeats": repeats, title: t("repeats") }, `↻ ${shortCount(repeats)}`) : null,
        naks ? h("span", { class: "badge nak", "data-naks": naks, title: t("naks") }, `⊘ ${shortCount(naks)}`) : null,
        losses ? h("span", { class: "badge lost", "data-losses": losses, title: t("losses") }, `✕ ${shortCount(losses)}`) : null,
        c.bad ? h("span", { class: "badge nak" }, `! ${shortCount(c.bad)}`) : null));
  }
}

export function problemsView(capture: Capture, repairs: Repairs, goTo: (packet: number) => void): HTMLElement {
  const { findings, events } = capture.header;
  if (!findings.length && !events.length) return h("div", { class: "problems" }, h("p", { class: "empty" }, svg("svg", { viewBox: "0 0 48 48", width: 48, height: 48, fill: "none", stroke: "currentColor", "stroke-width": 3 }, svg("path", { d: "M8 25l11 11 21-24" })), t("no_problems")));
  return h("div", { class: "problems" }, events.length ? eventsCard(capture, goTo) : null, ...findings.map((finding) => problemCard(capture, repairs, finding, goTo)));
}

// Lists the injected faults in order; each links to the packet that came next.
function eventsCard(capture: Capture, goTo: (packet: number) => void): HTMLElement {
  const { events } = capture.header;
  const next = (time: number) => { const at = capture.time.findIndex((packet) => packet >= time); return at < 0 ? capture.size - 1 : at; };
  return h("article", { class: "problem", "data-kind": "events" },
    h("header", {}, h("span", { class: "mark" }, "⚡"), h("div", {}, h("h3", {}, t("faults_on_purpose")), h("p", { class: "way" }, h("span", {}, count(events.length))))),
    h("ul", { class: "events" }, ...events.slice(0, shownMax).map((event) => h("li", {}, h("button", { class: "chip", title: t("show"), disabled: capture.size === 0, onclick: () => goTo(next(event.time)) }, duration(event.time, 5)), h("span", {}, event.text)))));
}

function problemCard(capture: Capture, repairs: Repairs, finding: Finding, goTo: (packet: number) => void): HTMLElement {
  const c = finding.connection === null ? null : capture.header.connections[finding.connection]!;
  const lines = (title: string, list: [string, string][]) => list.length ? h("section", {}, h("h4", {}, title), h("ul", {}, ...list.map((line) => h("li", {}, of(line))))) : null;
  const chip = (i: number) => h("button", { class: "chip", title: t("show"), onclick: () => goTo(i) }, `${capture.label(i)} · ${duration(capture.time[i]! - capture.firstOf(i), 5)}`);
  const chips = h("div", { class: "chips" });
  const fill = (shown: number): void => {
    const rest = finding.count - shown;
    replace(chips, ...finding.packets.slice(0, shown).map(chip),
      shown < finding.packets.length ? h("button", { class: "chip more", onclick: () => fill(finding.packets.length) }, `+ ${count(rest)}`) : rest > 0 ? h("span", { class: "hint" }, t("more_in_ladder", count(rest))) : null);
  };
  fill(Math.min(12, finding.packets.length));
  // Comments on lost and damaged packets name exact causes; the usual ones would only distract. A comment on a NAK is not
  // the reason for it.
  const remarks = new Map<string, number>();
  if (["lost", "bad"].includes(finding.kind)) for (const i of finding.packets) { const remark = capture.header.remarks[String(i)]; if (remark) remarks.set(remark, (remarks.get(remark) ?? 0) + 1); }
  const explained = [...remarks.values()].reduce((sum, n) => sum + n, 0);
  // A NAK or a silence has no comment of its own; its connection may have.
  const around = new Map<string, number>();
  if (!explained && finding.connection !== null && ["sequence", "silence"].includes(finding.kind)) {
    for (const [i, remark] of Object.entries(capture.header.remarks)) if (capture.connection[Number(i)] === finding.connection) around.set(remark, (around.get(remark) ?? 0) + 1);
  }
  const injected = around.size ? h("section", {}, h("h4", {}, t("injected_here")), h("ul", {}, ...[...around].map(([remark, n]) => h("li", {}, `${remark.replace(/^fault: /, "")} × ${count(n)}`)))) : null;
  const exact = explained ? h("section", {}, h("h4", {}, t("exact_causes")), h("ul", {}, ...[...remarks].map(([remark, n]) => h("li", {}, t("of_packets", remark, count(n), count(finding.packets.length)))))) : null;
  const told = finding.exact?.length ? h("section", { class: "told" }, h("h4", {}, t("told_by_program")), ...finding.exact.slice(0, 8).map((pair) => h("p", { class: "exact" }, of(pair)))) : null;
  const known = Boolean(told) || (explained > 0 && explained === finding.packets.length);
  return h("article", { class: `problem ${finding.grave ? "grave" : ""}`, "data-kind": finding.kind },
    h("header", {}, h("span", { class: "mark" }, { refused: "⊘", silence: "…", failed: "!", rnr: "⊘", rejected: "⊘", sequence: "◇", lost: "✕", bad: "!" }[finding.kind] ?? "!"),
      h("div", {}, h("h3", {}, of(finding.title)), h("p", { class: "way" }, finding.name ? h("code", {}, finding.name) : null, c ? h("span", {}, `${endName(c.a).join(" ")} ⇄ ${endName(c.b).join(" ")}`) : null))),
    h("p", {}, of(finding.meaning)), told, finding.kind === "lost" ? repairs.table(finding.connection) : null, h("div", { class: "advice" }, exact, injected, known ? null : lines(t("causes"), finding.causes), known ? null : lines(t("checks"), finding.checks)), chips);
}

// The progress of a handshake, by its messages.
export function outcome(capture: Capture, handshake: Handshake): { text: string; kind: string } {
  const names = new Set(handshake.packets.map((i) => capture.label(i)));
  if (names.has("REJ")) return { text: t("rejected"), kind: "nak" };
  if (names.has("SIDR_REP") || names.has("SIDR REP")) return { text: t("resolved"), kind: "answer" };
  if (names.has("DREQ")) return { text: t("closed"), kind: "answer" };
  if (names.has("RTU")) return { text: t("connected"), kind: "answer" };
  return { text: t("unfinished"), kind: "repeat" };
}

export function handshakeList(capture: Capture, chosen: number, choose: (at: number) => void): HTMLElement {
  return h("div", { class: "handshakes" }, ...capture.header.handshakes.slice(0, shownMax).map((handshake, at) => {
    const { text, kind } = outcome(capture, handshake), first = handshake.packets[0]!, last = handshake.packets[handshake.packets.length - 1]!;
    return h("button", { class: "handshake", "aria-pressed": at === chosen ? "true" : "false", onclick: () => choose(at) },
      h("b", {}, `${handshake.a} → ${handshake.b}`), h("span", { class: `badge ${kind}` }, text),
      h("small", {}, `${handshake.packets.map((i) => capture.label(i)).slice(0, 8).join(" · ")} · ${duration(capture.time[last]! - capture.time[first]!)}`),
      handshake.qps[0] !== null && handshake.qps[0] !== undefined ? h("code", {}, `${qp(handshake.qps[0])} ⇄ ${qp(handshake.qps[1] ?? null)}`) : null);
  }));
}
