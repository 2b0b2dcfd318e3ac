// One packet: its fate, every field with its meaning, and the clause of the specification.
import { Mark, none, type Capture, type Details, type Field } from "./capture";
import { h, replace } from "./dom";
import { duration, octets } from "./format";
import { fieldText, valueText } from "./field_text";
import { Repairs } from "./repairs";
import { t } from "./text";

// The clause that defines each header. The IBTA volumes are free after registration; RFCs are linked directly.
const ibta = "https://www.infinibandta.org/ibta-specification/";
const rfc = (n: number, section = "") => `https://www.rfc-editor.org/rfc/rfc${n}${section}`;
const clauses: Record<string, [text: string, link: string]> = {
  ethernet: ["IEEE 802.3, 3.2", "https://standards.ieee.org/ieee/802.3/10422/"],
  vlan: ["IEEE 802.1Q, 9", "https://standards.ieee.org/ieee/802.1Q/10323/"],
  ipv4: ["RFC 791, 3.1", rfc(791, "#section-3.1")],
  ipv6: ["RFC 8200, 3", rfc(8200, "#section-3")],
  ecn: ["RFC 3168, 5", rfc(3168, "#section-5")],
  dscp: ["RFC 2474, 3", rfc(2474, "#section-3")],
  udp: ["RFC 768; IBTA Vol. 1, annex A17", rfc(768)],
  grh: ["IBTA Vol. 1, 8.3", ibta],
  bth: ["IBTA Vol. 1, 9.2", ibta],
  psn: ["IBTA Vol. 1, 9.2 and 9.7", ibta],
  deth: ["IBTA Vol. 1, 9.3", ibta],
  xrceth: ["IBTA Vol. 1, annex A14", ibta],
  feth: ["IBTA Vol. 1, annex A19", ibta],
  reth: ["IBTA Vol. 1, 9.3", ibta],
  atomic_eth: ["IBTA Vol. 1, 9.3", ibta],
  aeth: ["IBTA Vol. 1, 9.3 and 9.7.5", ibta],
  atomic_ack_eth: ["IBTA Vol. 1, 9.3", ibta],
  mad: ["IBTA Vol. 1, 13.4", ibta],
  cm: ["IBTA Vol. 1, 12.6", ibta],
  icrc: ["IBTA Vol. 1, 7.8 and annex A17", ibta],
};

export interface DetailsSource { fetch(index: number): Promise<Details | null> }

export class DetailsPanel {
  readonly element = h("aside", { class: "details", "aria-label": "packet" });
  onGoTo: (packet: number) => void = () => {};
  onClose: () => void = () => {};
  private wanted = -1;
  private closed = new Set<string>(["ethernet", "ipv4", "ipv6", "udp"]);

  constructor(private readonly capture: Capture, private readonly source: DetailsSource, private readonly repairs: Repairs) { this.clear(); }

  clear(): void {
    this.wanted = -1;
    this.element.classList.remove("open");
    replace(this.element, h("p", { class: "hint" }, t("select_packet")));
  }

  async show(i: number): Promise<void> {
    this.wanted = i;
    this.element.classList.add("open");
    const body = h("div", { class: "fields" }, h("p", { class: "hint" }, t("fields_loading")));
    replace(this.element, this.heading(i), body);
    const details = await this.source.fetch(i).catch(() => null);
    if (this.wanted !== i) return;
    if (!details) { replace(body, h("p", { class: "hint" }, t("no_details"))); return; }
    replace(body, details.reason ? h("p", { class: "reason" }, fieldText(details.reason)) : null,
      ...details.fields.map((field) => this.group(field, details.strings)), details.payload ? this.payload(details.payload, i) : null);
  }

  private heading(i: number): HTMLElement {
    const c = this.capture, marks = c.marks[i]!, partner = c.partner[i]!;
    const connection = c.connection[i] === none ? null : c.header.connections[c.connection[i]!]!;
    const [from, to] = connection ? (marks & Mark.fromB ? [connection.b, connection.a] : [connection.a, connection.b]) : [null, null];
    const chips: [boolean, string, string][] = [
      [(marks & Mark.lost) !== 0, "✕ " + t("was_lost"), "lost"], [(marks & Mark.repeat) !== 0, "↻ " + t("was_repeated"), "repeat"],
      [(marks & Mark.nak) !== 0, "⊘ NAK", "nak"], [(marks & Mark.rnr) !== 0, "⊘ RNR NAK", "rnr"], [(marks & Mark.gap) !== 0, "◇ " + t("was_gap"), "lost"],
      [(marks & Mark.bad) !== 0, t("bad"), "nak"], [(marks & Mark.congestion) !== 0, t("congestion"), "repeat"],
      [(marks & Mark.remark) !== 0, `⚡ ${t("remark")}: ${(c.header.remarks[i] ?? "").replace(/^fault: /, "")}`, "rnr"], [(marks & Mark.ackRequest) !== 0, t("ack_request"), ""],
    ];
    const travel = c.travel[i]!;
    return h("header", {},
      h("div", { class: "row" }, h("h2", {}, h("small", {}, `${t("packet")} ${c.number[i]}`), c.cm[i] ? `CM ${c.label(i)}` : c.opcodeName(i)),
        h("button", { class: "icon close", "aria-label": t("close"), onclick: () => this.onClose() }, "✕")),
      h("p", { class: "when" }, h("b", { title: c.clock(i) }, duration(c.time[i]! - c.firstOf(i), 7)), Number.isNaN(travel) ? "" : ` · ${t("traveled", duration(travel))}`, c.octets[i] ? ` · ${octets(c.octets[i]!)}` : ""),
      from && to ? h("p", { class: "way" }, h("code", {}, `${from.address} ${from.qp === null ? "" : "qp 0x" + from.qp.toString(16)}`), " → ", h("code", {}, `${to.address} ${to.qp === null ? "" : "qp 0x" + to.qp.toString(16)}`)) : null,
      h("div", { class: "chips" }, ...chips.filter(([on]) => on).map(([, text, kind]) => h("span", { class: `badge ${kind}` }, text))),
      ...this.costs(i),
      partner === none ? null : h("button", { class: "link", onclick: () => this.onGoTo(partner) },
        t(marks & Mark.request ? "answer" : "request", c.number[partner]!), ` (${c.label(partner)}, ${t("after", duration(Math.abs(c.time[partner]! - c.time[i]!)))})`));
  }

  // The cost of a loss, and the loss that a repeat repaired.
  private costs(i: number): (HTMLElement | null)[] {
    const lost = this.repairs.of(i), repairs = this.repairs.by(i);
    return [lost ? h("p", { class: "cost", "data-cost": "lost" }, Repairs.text(lost), " ", lost.repair === null ? null : h("button", { class: "link", onclick: () => this.onGoTo(lost.repair!) }, t("show_repair", this.capture.number[lost.repair]!))) : null,
      repairs ? h("p", { class: "cost", "data-cost": "repair" }, t("repairs_packet"), " ", h("button", { class: "link", onclick: () => this.onGoTo(repairs.lost) }, `${t("packet")} ${this.capture.number[repairs.lost]}`), ` · ${Repairs.text(repairs)}`) : null];
  }

  private group(field: Field, strings: string[]): HTMLElement {
    const [label, text, meaning, key, children] = field, name = strings[key] ?? "";
    if (!children) return this.row(field, strings);
    const clause = clauses[name];
    const box = h("details", { open: !this.closed.has(name) },
      h("summary", {}, h("b", {}, fieldText(strings[label] ?? "")), h("span", {}, valueText(text))),
      h("p", { class: "meaning" }, fieldText(strings[meaning] ?? ""), clause ? h("a", { href: clause[1], target: "_blank", rel: "noreferrer noopener" }, `${t("clause")}: ${clause[0]}`) : null),
      h("div", { class: "rows" }, ...children.map((child) => this.group(child, strings))));
    box.addEventListener("toggle", () => { if (box.open) this.closed.delete(name); else this.closed.add(name); });
    return box;
  }

  private row([label, text, meaning, key]: Field, strings: string[]): HTMLElement {
    const clause = clauses[strings[key] ?? ""];
    return h("div", { class: "field" }, h("span", { class: "label" }, fieldText(strings[label] ?? "")), h("code", {}, valueText(text)),
      strings[meaning] ? h("p", {}, fieldText(strings[meaning]!), clause ? h("a", { href: clause[1], target: "_blank", rel: "noreferrer noopener" }, clause[0]) : null) : null);
  }

  private payload(hex: string, i: number): HTMLElement {
    const lines: string[] = [];
    for (let at = 0; at < hex.length; at += 32) {
      const piece = hex.slice(at, at + 32).match(/../g)!;
      const text = piece.map((pair) => { const code = parseInt(pair, 16); return code >= 32 && code < 127 ? String.fromCharCode(code) : "·"; }).join("");
      lines.push(`${(at / 2).toString(16).padStart(4, "0")}  ${piece.join(" ").padEnd(47)}  ${text}`);
    }
    const all = this.capture.octets[i]!, shown = hex.length / 2;
    return h("details", {}, h("summary", {}, h("b", {}, t("payload")), h("span", {}, shown < all ? t("first_octets", shown, all) : octets(all))), h("pre", {}, lines.join("\n")));
  }
}
