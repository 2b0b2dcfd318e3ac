// The inspector: assembles the parts. Data comes from the server that `rrdma inspect` runs or, in a report, from the
// page itself.
import { callLabels, callsView } from "./calls";
import { Capture, none, Selection, type Details } from "./capture";
import { LatencyView, SequenceView } from "./charts";
import { DetailsPanel, type DetailsSource } from "./details";
import { forgetPalette, h, icon, replace } from "./dom";
import { count } from "./format";
import { Ladder, type EndNames } from "./ladder";
import { LivePage } from "./live";
import { Overview } from "./overview";
import { ConnectionList, endName, handshakeList, problemsView } from "./panels";
import { Player } from "./play";
import { Repairs } from "./repairs";
import { currentLanguage, keys, of, setLanguage, t, type Language, type Word } from "./text";

type Tab = "ladder" | "sequence" | "latency" | "problems" | "handshakes" | "calls";
const roomy = 1180;  // keep in sync with style.css
const tabs: Tab[] = ["ladder", "sequence", "latency", "problems", "handshakes", "calls"];

async function unpack(element: HTMLElement): Promise<ArrayBuffer> {
  const packed = Uint8Array.from(atob(element.textContent!.trim()), (c) => c.charCodeAt(0));
  element.remove();
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}

async function load(): Promise<{ capture: Capture; details: DetailsSource } | null> {
  const inside = document.getElementById("capture");
  if (inside) {
    const capture = new Capture(await unpack(inside));
    const packed = document.getElementById("details")!;
    let all: Promise<{ strings: string[]; packets: Record<string, Details> }> | null = null;
    const details = async (index: number) => {
      all ??= unpack(packed).then((buffer) => JSON.parse(new TextDecoder().decode(buffer)));
      const { strings, packets } = await all, found = packets[index];
      return found ? { ...found, strings } : null;
    };
    return { capture, details: { fetch: details } };
  }
  const answer = await fetch("capture");
  if (answer.status === 204) return null;
  if (!answer.ok) throw new Error(await answer.text());
  const capture = new Capture(await answer.arrayBuffer());
  return { capture, details: { fetch: async (index) => { const one = await fetch(`packet/${index}`); return one.ok ? await one.json() as Details : null; } } };
}

class App {
  private readonly ladder = new Ladder();
  private readonly overview = new Overview();
  private readonly latency = new LatencyView();
  private readonly sequence = new SequenceView();
  private readonly list: ConnectionList;
  private readonly details: DetailsPanel;
  private readonly repairs: Repairs;
  private readonly main = h("main", {});
  private readonly bar = h("header", { class: "bar" });
  private readonly status = h("div", { class: "status", role: "status", "aria-live": "polite" });
  private readonly player: Player;
  private tab: Tab = "ladder";
  private connection = -1;
  private handshake = -1;
  private selection: Selection | null = null;
  private names: EndNames = { a: ["", ""], b: ["", ""] };

  constructor(private readonly capture: Capture, source: DetailsSource, private readonly root: HTMLElement) {
    this.list = new ConnectionList(capture);
    this.repairs = new Repairs(capture);
    this.details = new DetailsPanel(capture, source, this.repairs);
    this.ladder.repairs = this.repairs;
    this.ladder.calls = callLabels(capture);
    this.player = new Player(capture, source);
    this.list.onChoose = (connection) => { this.chooseConnection(connection); this.root.classList.remove("menu"); };
    this.list.onPacket = (packet) => { this.goTo(packet); this.root.classList.remove("menu"); };
    this.details.onGoTo = (packet) => this.goTo(packet);
    this.details.onClose = () => { this.details.clear(); this.ladder.selected = -1; this.ladder.surface.redraw(); };
    this.ladder.onSelect = (place) => this.selected(place);
    this.ladder.onView = () => this.overview.setView(this.ladder.view);
    this.player.onStep = (place) => { this.ladder.shownUntil = place; this.ladder.select(place); };
    this.player.onChange = () => {
      if (!this.player.playing) this.ladder.shownUntil = Infinity;
      if (this.ladder.selected >= 0) this.tellStep(this.ladder.selected);
      this.ladder.surface.redraw();
      this.refreshTools();
    };
    this.overview.onMove = (time) => this.ladder.centre(time);
    this.sequence.onPick = (place) => { this.openTab("ladder"); this.ladder.select(Math.min(place, this.selection!.size - 1)); };
    replace(root, this.bar, this.list.element, this.main, this.details.element, this.status);
    document.addEventListener("keydown", (event) => this.key(event));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    this.build();
    const first = this.list.first();
    if (first >= 0) this.chooseConnection(first);
    else if (capture.header.findings.length) this.openTab("problems");
    else replace(this.main, h("p", { class: "hint" }, t("no_connection")));
    if (location.hash === "#play") requestAnimationFrame(() => this.togglePlay());
    this.followLink();
    window.addEventListener("hashchange", () => this.followLink());
  }

  // #qp=0x11 leads to the connection of that queue pair, #packet=17 to packet 17. Choosing a packet sets it, so that the address of the page can be passed on.
  private followLink(): void {
    const pair = /^#qp=(0x[0-9a-f]+|\d+)$/.exec(location.hash)?.[1];
    const connection = pair ? this.capture.header.connections.findIndex((c) => c.a.qp === Number(pair) || c.b.qp === Number(pair)) : -1;
    if (connection >= 0) this.chooseConnection(connection);
    const number = Number(/^#packet=(\d+)$/.exec(location.hash)?.[1] ?? 0);
    if (number >= 1 && number <= this.capture.size && this.ladder.selectedPacket !== number - 1) this.goTo(number - 1);
  }

  private build(): void {
    const c = this.capture.header;
    const amount: Partial<Record<Tab, number>> = { problems: c.findings.length, handshakes: c.handshakes.length, calls: c.rpc.length };
    const tool = (word: Word, path: string, action: () => void) => h("button", { class: "icon", title: t(word), "aria-label": t(word), onclick: action }, icon(path));
    replace(this.bar,
      h("button", { class: "icon menu-button", title: t("menu"), "aria-label": t("menu"), onclick: () => this.root.classList.toggle("menu") }, icon("M3 5h14M3 10h14M3 15h14")),
      h("h1", {}, h("span", { class: "logo", "aria-hidden": "true" }), "RRDMA ", h("span", {}, t("title"))),
      h("div", { class: "tabs", role: "tablist" }, ...tabs.map((tab) => h("button", { role: "tab", "data-tab": tab, "aria-selected": tab === this.tab ? "true" : "false", onclick: () => this.openTab(tab) }, t(tab), amount[tab] ? h("span", { class: `amount ${tab === "problems" && c.findings.some((f) => f.grave) ? "grave" : ""}` }, count(amount[tab]!)) : null))),
      h("div", { class: "tools" }, h("button", { class: "icon text", title: "English / 中文", onclick: () => this.switchLanguage() }, currentLanguage() === "zh" ? "EN" : "中"),
        tool("theme", "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14M10 3v14M10 6h3.5M10 10h6M10 14h3.5", () => this.switchTheme()),
        tool("help", "M3.5 5.5h13v9h-13zM6 8.5h.01M9 8.5h.01M12 8.5h.01M14.5 8.5h.01M6.5 11.5h7", () => this.help())));
  }

  private chooseConnection(connection: number): void {
    this.connection = connection;
    const c = this.capture.header.connections[connection]!;
    this.list.choose(connection);
    this.present(new Selection(this.capture, this.capture.packetsOf(connection)), { a: endName(c.a), b: endName(c.b) });
    if (["problems", "handshakes", "calls"].includes(this.tab)) this.openTab("ladder");
    else this.openTab(this.tab);
  }

  private present(selection: Selection, names: EndNames): void {
    this.player.close();
    this.selection = selection;
    this.names = names;
    this.details.clear();
    this.ladder.show(selection, names);
    this.overview.show(selection);
  }

  private openTab(tab: Tab): void {
    const leavesHandshakes = this.tab === "handshakes" && tab !== "handshakes";
    this.tab = tab;
    this.root.dataset.tab = tab;
    this.build();
    this.root.dataset.tab = tab;
    this.bar.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (leavesHandshakes && this.connection >= 0 && this.handshake >= 0) {
      this.handshake = -1;
      const c = this.capture.header.connections[this.connection]!;
      this.present(new Selection(this.capture, this.capture.packetsOf(this.connection)), { a: endName(c.a), b: endName(c.b) });
    }
    if (tab === "ladder") replace(this.main, this.overview.surface.canvas, this.ladderTools(), this.ladder.surface.canvas, this.player.element);
    if (tab === "sequence" && this.selection) { this.sequence.show(this.selection, this.names); replace(this.main, this.sequence.element); }
    if (tab === "latency" && this.selection) { this.latency.show(this.selection, this.names); replace(this.main, this.latency.element); }
    if (tab === "problems") replace(this.main, problemsView(this.capture, this.repairs, (packet) => this.goTo(packet)));
    if (tab === "calls") replace(this.main, callsView(this.capture, (packet) => this.goTo(packet)));
    if (tab === "handshakes") this.openHandshakes();
  }

  private openHandshakes(): void {
    const all = this.capture.header.handshakes;
    if (!all.length) { replace(this.main, h("div", { class: "problems" }, h("p", { class: "empty" }, t("no_handshakes")))); return; }
    const choose = (at: number) => {
      this.handshake = at;
      const one = all[at]!;
      const made = one.connection === null ? null : this.capture.header.connections[one.connection]!;
      // The address once: as the name, or beside it.
      const end = (qpn: number | null | undefined, address: string): [string, string] => { const known = made && [made.a, made.b].find((e) => e.qp === qpn && e.owner); return known ? [endName(known)[0], `${address} · QP 1`] : [address, "QP 1"]; };
      this.present(new Selection(this.capture, Uint32Array.from(one.packets)), { a: end(one.qps[0], one.a), b: end(one.qps[1], one.b) });
      replace(this.main, h("div", { class: "split" }, handshakeList(this.capture, at, choose), h("div", { class: "column" }, this.ladderTools(), this.ladder.surface.canvas, this.player.element)));
      requestAnimationFrame(() => this.ladder.home());
    };
    choose(Math.max(0, this.handshake));
  }

  private ladderTools(): HTMLElement {
    const tool = (word: Word, path: string, action: () => void, id = "") => h("button", { class: "icon", id, title: t(word), "aria-label": t(word), onclick: action }, icon(path));
    const mode = (name: "steps" | "time", word: Word) => h("button", { "aria-pressed": this.ladder.mode === name ? "true" : "false", "data-mode": name, onclick: () => this.setMode(name) }, t(word));
    const legend = ([["request", "→", "request"], ["answer", "→", "answer"], ["repeat", "↻", "repeat"], ["nak", "⊘", "NAK"], ["lost", "✕", "lost"], ["lost", "◇", "gap"], ...(this.selection?.count("fault", 0, this.selection.size) || this.capture.header.events.length ? [["rnr", "⚡", "fault"]] as const : [])] as const)
      .map(([kind, sign, name]) => h("span", { class: `key ${kind}` }, h("i", {}, sign), currentLanguage() === "zh" ? { request: "请求", answer: "回答", repeat: "重传", NAK: "NAK", lost: "丢失", gap: "缺口", fault: "注入的故障" }[name] : name));
    return h("div", { class: "toolbar" }, h("div", { class: "segmented" }, mode("steps", "by_step"), mode("time", "by_time")),
      tool("zoom_out", "M4 10h12", () => this.ladder.zoom(1 / 1.6)), tool("zoom_in", "M4 10h12M10 4v12", () => this.ladder.zoom(1.6)), tool("fit", "M7 3H3v4M13 3h4v4M7 17H3v-4M13 17h4v-4", () => this.ladder.fit(), "fit"),
      tool("previous_problem", "M5 12l5-5 5 5", () => this.problem(-1)), tool("next_problem", "M5 8l5 5 5-5", () => this.problem(1), "next-problem"),
      tool(this.player.playing ? "pause" : "play", this.player.playing ? "M7 4v12M13 4v12" : "M6 4l10 6-10 6z", () => this.togglePlay(), "play"), h("button", { class: "chip psns", "aria-pressed": this.capture.relativePsns ? "true" : "false", title: t("relative_psns"), onclick: () => this.toggleRelative() }, "psn +0"), h("div", { class: "legend" }, ...legend));
  }
  private toggleRelative(): void {
    this.capture.relativePsns = !this.capture.relativePsns;
    this.list.build();
    this.ladder.surface.redraw();
    this.refreshTools();
  }
  private refreshTools(): void { this.main.querySelector(".toolbar")?.replaceWith(this.ladderTools()); }

  private setMode(mode: "steps" | "time"): void { this.ladder.setMode(mode); this.refreshTools(); }
  private problem(step: 1 | -1): void {
    const s = this.selection;
    if (!s) return;
    const from = this.ladder.selected >= 0 ? this.ladder.selected : step > 0 ? -1 : s.size;
    const next = s.nextProblem(from, step);
    if (next >= 0) this.ladder.reveal(next);
  }
  private goTo(packet: number): void {
    const connection = this.capture.connection[packet]!;
    if (this.selection && this.selection.placeOf(packet) < 0 && connection !== none) this.chooseConnection(connection);
    if (this.tab !== "ladder" && this.tab !== "handshakes") this.openTab("ladder");
    const place = this.selection?.placeOf(packet) ?? -1;
    if (place >= 0) requestAnimationFrame(() => this.ladder.reveal(place));
    else void this.details.show(packet);
  }
  private selected(place: number): void {
    this.status.textContent = this.ladder.describe(place);
    history.replaceState(null, "", `#packet=${this.selection!.packets[place]! + 1}`);
    // In a narrow window, the fields would cover the playback.
    if (!this.player.playing || this.root.clientWidth > roomy) void this.details.show(this.selection!.packets[place]!);
    this.tellStep(place);
  }

  private togglePlay(): void {
    const s = this.selection;
    if (this.player.playing) { this.player.stop(); return; }
    if (!s || !s.size) return;
    this.ladder.makeReadable();
    this.player.start(s, this.ladder.selected);
  }
  private tellStep(place: number): void {
    const s = this.selection;
    if (s) this.player.tell(s, place, this.names, (by) => this.stepBy(by), () => this.togglePlay());
  }
  private stepBy(by: number): void { this.player.stop(); this.ladder.select(Math.max(0, this.ladder.selected + by)); }

  private switchTheme(): void {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    this.repaint();
  }
  private repaint(): void {
    forgetPalette();
    this.ladder.surface.redraw();
    this.overview.surface.redraw();
    this.latency.redraw();
    this.sequence.redraw();
  }
  private switchLanguage(): void {
    const chosen: Language = currentLanguage() === "zh" ? "en" : "zh";
    setLanguage(chosen);
    this.list.build();
    const place = this.ladder.selected;
    this.openTab(this.tab);
    if (place >= 0) this.selected(place); else this.details.clear();
  }
  private help(): void {
    const dialog = h("dialog", { class: "help" }, h("h2", {}, t("keys_title")), h("dl", {}, ...keys.flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, of(text))])), h("button", { class: "chip", onclick: () => dialog.close() }, t("close")));
    dialog.addEventListener("close", () => dialog.remove());
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    document.body.append(dialog);
    dialog.showModal();
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typing = event.target instanceof HTMLInputElement;
    if (typing) { if (event.key === "Escape" || event.key === "Enter") (event.target as HTMLInputElement).blur(); return; }
    const at = this.ladder.selected, s = this.selection, onLadder = this.tab === "ladder" || this.tab === "handshakes";
    const moves: Record<string, () => void> = {
      ArrowDown: () => this.ladder.select(at < 0 ? 0 : at + 1), ArrowUp: () => this.ladder.select(at - 1),
      PageDown: () => this.ladder.pan(0.9), PageUp: () => this.ladder.pan(-0.9),
      Home: () => this.ladder.reveal(0), End: () => this.ladder.reveal((s?.size ?? 1) - 1),
      "+": () => this.ladder.zoom(1.6), "=": () => this.ladder.zoom(1.6), "-": () => this.ladder.zoom(1 / 1.6), "0": () => this.ladder.fit(),
      n: () => this.problem(1), p: () => this.problem(-1), r: () => this.toggleRelative(), s: () => this.setMode(this.ladder.mode === "steps" ? "time" : "steps"), " ": () => this.togglePlay(),
      g: () => { if (at >= 0) { const partner = this.capture.partner[s!.packets[at]!]!; if (partner !== none) this.goTo(partner); } },
      Escape: () => this.details.onClose(),
    };
    const everywhere: Record<string, () => void> = { "/": () => { this.root.classList.add("menu"); this.list.search.focus(); }, t: () => this.switchTheme(), l: () => this.switchLanguage(), "?": () => this.help() };
    const tab = tabs[Number(event.key) - 1];
    const action = tab ? () => this.openTab(tab) : everywhere[event.key] ?? (onLadder ? moves[event.key] : undefined);
    if (!action || (event.key === " " && event.target instanceof HTMLButtonElement)) return;
    event.preventDefault();
    action();
  }
}

async function start(): Promise<void> {
  const root = document.getElementById("app")!;
  setLanguage(currentLanguage());
  replace(root, h("p", { class: "loading" }, t("loading")));
  try {
    const loaded = await load();
    if (loaded) new App(loaded.capture, loaded.details, root);
    else { replace(root); new LivePage(root); }
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    replace(root, h("p", { class: "loading" }, t("cannot", error instanceof Error ? error.message : String(error))));
    document.documentElement.dataset.ready = "failed";
  }
}
void start();
