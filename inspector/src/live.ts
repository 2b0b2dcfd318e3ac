// The running programs: a map of them, a table of their queue pairs, one queue pair, and errors with the text of
// `rrdma explain`. Snapshots come four times a second as server-sent events.
import { append, forgetPalette, h, replace, setAttribute, setText, svg } from "./dom";
import { FaultPanel } from "./faults";
import { count, octets, qp as qpText, shortCount } from "./format";
import { isInjection, Memory, nameOf, rateOf, type Explained, type Look, type Said, type Watched } from "./looks";
import { ProgramMap } from "./map";
import { PairPanel } from "./pair";
import { currentLanguage, setLanguage, t, type Word } from "./text";

const rowsMax = 200, errorsMax = 40;
const sortInterval = 3000;  // milliseconds
const heads: Word[] = ["program", "qp", "state", "peer", "link", "sends", "receives", "resent", "timeouts", "naks"];

const peerCall = "peer";  // sentences about the death of the process at the other end

interface Failure { process: Explained; said: Said }

// One queue pair in the table.
class Row {
  readonly element: HTMLElement;
  private readonly cells = heads.map(() => h("td", {}));

  constructor(private readonly one: Watched, choose: () => void) {
    const { now } = one;
    this.element = h("tr", { "data-key": one.key, onclick: choose }, ...this.cells);
    append(this.cells[0]!, [`${nameOf(one.program)} `, h("small", {}, one.pid)]);
    append(this.cells[1]!, [h("code", {}, qpText(now.qpn)), h("small", {}, ` ${now.type}`)]);
    this.cells[2]!.append(h("span", {}));
    this.cells.slice(3).forEach((cell, at) => { if (at >= 2) cell.className = "n"; });
  }

  update(chosen: string): void {
    const { one, cells } = this, { now } = one, badge = cells[2]!.firstElementChild!;
    setAttribute(this.element, "class", one.gone ? "gone" : "");
    setAttribute(this.element, "aria-selected", one.key === chosen ? "true" : "false");
    setAttribute(badge, "class", `badge ${now.state === "ERR" ? "nak" : now.state === "RTS" && !one.gone ? "answer" : ""}`);
    setText(badge, one.gone ? t("ended") : now.state);
    const texts = [now.peer_qpn ? `${now.peer} ${qpText(now.peer_qpn)}` : now.peer, now.link, `${octets(Math.round(rateOf(one.sent, one)))}/s`, `${octets(Math.round(rateOf(one.received, one)))}/s`, shortCount(now.packets_resent), shortCount(now.ack_timeouts), shortCount(now.sequence_naks)];
    texts.forEach((text, at) => setText(cells[3 + at]!, text));
    setAttribute(cells[7]!, "class", now.packets_resent ? "n warn" : "n");
    setAttribute(cells[8]!, "class", now.ack_timeouts ? "n warn" : "n");
  }
}

export class LivePage {
  private readonly map = new ProgramMap();
  private readonly table = h("div", { class: "pairs" });
  private readonly errors = h("div", { class: "errors" });
  private readonly legend = h("div", { class: "legend live-legend" });
  private readonly pair = new PairPanel();
  private readonly faults = new FaultPanel();
  private readonly head = h("header", { class: "bar" });
  private readonly search = h("input", { type: "search", "aria-label": "search", autocomplete: "off", spellcheck: "false" });
  private readonly memory = new Memory();
  private readonly opened = Date.now() * 1e6;
  private chosen = "";
  private last: Look | null = null;
  private lost = false;
  private shownErrors = "";
  private shownHead = "";
  private rows: Row[] = [];
  private tableShape = "";
  private tableOrder = "";
  private sortedAt = 0;

  constructor(root: HTMLElement) {
    root.dataset.page = "live";
    this.search.addEventListener("input", () => this.fillTable());
    this.map.onProgram = (pid) => { this.search.value = String(pid); this.fillTable(); };
    this.map.onPair = (key) => this.choose(key);
    this.pair.onInject = (words) => this.faults.propose(words);
    replace(root, this.head, h("section", { class: "live-main" }, this.map.element, this.legend, h("div", { class: "searchbox" }, this.search), this.table), h("aside", { class: "live-side" }, this.errors, this.faults.element, this.pair.element));
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("resize", () => { if (this.last) this.show(this.last); });
    this.build();
    this.map.show([], "");
    this.pair.show(null);
    const events = new EventSource("live");
    events.onmessage = (event) => { this.lost = false; this.take(JSON.parse(event.data as string) as Look); };
    events.onerror = () => { this.lost = true; this.build(); };
  }

  private key(event: KeyboardEvent): void {
    if (event.target instanceof HTMLInputElement) { if (event.key === "Escape") event.target.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = (by: number) => { const shown = this.matching(), at = shown.findIndex((one) => one.key === this.chosen) + by; if (shown[at]) this.choose(shown[at]!.key); };
    const actions: Record<string, () => void> = { t: () => this.theme(), l: () => this.language(), "/": () => this.search.focus(), ArrowDown: () => step(1), ArrowUp: () => step(-1) };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  private theme(): void {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    forgetPalette();
    this.pair.redraw();
  }
  private language(): void {
    setLanguage(currentLanguage() === "zh" ? "en" : "zh");
    this.map.forget();
    this.shownErrors = "";
    this.build();
    if (this.last?.stat) this.show(this.last);
  }

  private build(): void {
    const look = this.last, processes = look?.stat?.processes ?? [], amount = (word: Word, n: number) => h("span", { class: "amount" }, `${t(word)} ${count(n)}`);
    const pairs = processes.reduce((n, process) => n + process.queue_pairs.length, 0), shape = JSON.stringify([currentLanguage(), this.lost, look?.problem, processes.length, pairs]);
    if (shape === this.shownHead) return;
    this.shownHead = shape;
    this.search.placeholder = t("search_pairs");
    this.buildLegend();
    replace(this.head, h("h1", {}, h("span", { class: "logo", "aria-hidden": "true" }), "RRDMA ", h("span", {}, t("title"))),
      h("div", { class: "tabs" }, h("span", { class: `pulse ${this.lost ? "off" : ""}` }), h("span", { class: "live-word" }, this.lost ? t("connection_lost") : look?.problem ?? t("live")), amount("programs", processes.length), amount("queue_pairs", pairs)),
      h("div", { class: "tools" }, h("button", { class: "icon text", title: "English / 中文", onclick: () => this.language() }, currentLanguage() === "zh" ? "EN" : "中"), h("button", { class: "icon text", title: t("theme"), "aria-label": t("theme"), onclick: () => this.theme() }, "◐")));
  }

  // The signs of the map.
  private buildLegend(): void {
    const line = (kind: string, word: Word) => h("span", { class: "key" }, svg("svg", { class: `edge ${kind}`, viewBox: "0 0 26 10", width: 26, height: 10 }, svg("path", { d: "M1 5h24", class: "wire", "stroke-width": 4 })), t(word));
    const dot = (state: string, word: Word) => h("span", { class: "key" }, svg("svg", { class: `dot ${state}`, viewBox: "-6 -6 12 12", width: 12, height: 12 }, svg("circle", { r: 4.4 })), t(word));
    replace(this.legend, line("udp", "legend_udp"), line("shm", "legend_shm"), line("trouble", "legend_trouble"), line("failed", "legend_failed"),
      dot("RTS", "legend_ready"), dot("RTR", "legend_receiving"), dot("INIT", "legend_other"), dot("ERR", "legend_error"), h("span", { class: "key" }, h("i", { class: "swatch there" }), t("legend_queue")), h("span", { class: "key rnr" }, h("i", {}, "⚡"), t("faults_on_purpose")));
  }

  private take(look: Look): void {
    this.last = look;
    if (look.stat) { this.memory.take(look); this.memory.learn(look.explained.en); this.memory.forgetSome(this.chosen); }
    this.build();
    if (look.stat) this.show(look);
  }

  private show(look: Look): void {
    if (!look.stat) return;
    this.fillTable();
    this.map.show(this.memory.programs(), this.chosen);
    this.fillErrors(look);
    this.faults.show(look.faults);
    this.showPair();
  }
  private showPair(): void {
    const one = this.memory.watched.get(this.chosen) ?? null;
    this.pair.show(one, one ? this.memory.injectionsOf(one.pid) : [], this.last?.captures);
  }

  private choose(key: string): void {
    this.chosen = key;
    this.fillTable();
    this.map.show(this.memory.programs(), key);
    this.showPair();
  }

  private matching(): Watched[] {
    const terms = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = ({ pid, program, now }: Watched) => [pid, program, qpText(now.qpn), now.type, now.state, now.peer, now.link, now.packets_resent ? "repeat" : ""].join(" ").toLowerCase();
    return [...this.memory.watched.values()].filter((one) => terms.every((term) => text(one).includes(term)))
      .sort((x, y) => Number(x.gone) - Number(y.gone) || rateOf(y.sent, y) - rateOf(x.sent, x) || x.pid - y.pid || x.now.qpn - y.now.qpn).slice(0, rowsMax);
  }

  // Sorts the busiest first. Rows keep their places for a while, because a table that reorders four times a second is
  // unreadable.
  private fillTable(): void {
    const shape = JSON.stringify([this.memory.watched.size, this.search.value, currentLanguage(), [...this.memory.watched.values()].filter((one) => one.gone).length]);
    if (shape !== this.tableShape || Date.now() - this.sortedAt > sortInterval) {
      const all = this.matching();
      this.sortedAt = Date.now();
      if (!this.chosen && all.length) this.chosen = all[0]!.key;
      const order = shape + all.map((one) => one.key).join();
      if (order !== this.tableOrder) {
        this.tableOrder = order;
        this.rows = all.map((one) => new Row(one, () => this.choose(one.key)));
        replace(this.table, h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((word) => h("th", {}, t(word))))), h("tbody", {}, ...this.rows.map((row) => row.element))));
      }
      this.tableShape = shape;
    }
    for (const row of this.rows) row.update(this.chosen);
  }

  private fillErrors(look: Look): void {
    const list = (currentLanguage() === "zh" ? look.explained.zh : look.explained.en) ?? [];
    const all: Failure[] = list.flatMap((process) => process.sentences.filter((said) => said.severity === "error" || said.call === peerCall).map((said) => ({ process, said }))).sort((x, y) => y.said.last_time_ns - x.said.last_time_ns).slice(0, errorsMax);
    const shape = currentLanguage() + JSON.stringify(all.map(({ process, said }) => [process.pid, said.time_ns, said.times]));
    if (shape === this.shownErrors) return;
    this.shownErrors = shape;
    const fresh = all.filter(({ said }) => said.last_time_ns >= this.opened), before = all.filter(({ said }) => said.last_time_ns < this.opened);
    replace(this.errors, h("h2", {}, t("went_wrong")), fresh.length ? null : h("p", { class: "hint" }, t("calm")), ...fresh.map(failureCard), before.length ? h("details", {}, h("summary", {}, `${t("before_opened")} (${before.length})`), ...before.map(failureCard)) : null);
  }
}

function failureCard({ process, said }: Failure): HTMLElement {
  const { failure } = said, injection = isInjection(said);
  return h("article", { class: injection ? "problem injection" : "problem grave", "data-pid": process.pid, "data-delay-ms": Math.round(Date.now() - said.last_time_ns / 1e6) },
    h("header", {}, h("span", { class: "mark" }, injection ? "⚡" : "⊘"), h("div", {}, h("h3", {}, injection ? t("fault_injected", said.call.slice(6)) : failure?.status_name ?? (said.call === peerCall ? t("peer_killed") : said.call)),
      h("p", { class: "way" }, h("code", {}, `${nameOf(process.program)} ${process.pid}`), failure?.peer ? h("span", {}, `→ ${failure.peer}`) : null, h("span", {}, new Date(said.last_time_ns / 1e6).toLocaleTimeString()), said.times > 1 ? h("span", { class: "badge nak" }, `× ${said.times}`) : null))),
    h("p", {}, said.sentence), said.source ? h("p", { class: "when" }, t(failure ? "posted" : "source"), " ", h("code", {}, said.source.line || `${said.source.module}+0x${said.source.address.toString(16)}`)) : null, failure?.remedy?.length ? h("div", {}, h("h4", {}, t("checks")), h("ul", { class: "advice" }, ...failure.remedy.map((line) => h("li", {}, line)))) : null);
}
