// The map of programs: their connections, links, rates and backlog. A box is a program with its device, its queue
// pairs as dots, its completion queues and memory. A line connects two programs.
import { h, replace, setAttribute, setText, svg, unit } from "./dom";
import { octets, shortCount } from "./format";
import { nameOf, rateOf, type Program, type Watched } from "./looks";
import { currentLanguage, t } from "./text";

interface Edge { a: number; b: number; link: string; pairs: Watched[] }
interface Place { x: number; y: number }

const tall = 106, gap = 26, edgeRoom = 16, dotStep = 15;
const narrow = 560, bendRoom = 84;  // below that width there is one column, and lines bend beside it

export class ProgramMap {
  readonly element = h("div", { class: "map" });
  onProgram: (pid: number) => void = () => {};
  onPair: (key: string) => void = () => {};
  private shape = "";

  forget(): void { this.shape = ""; }

  show(programs: Program[], chosen: string): void {
    if (!programs.length) { this.shape = ""; replace(this.element, h("p", { class: "hint waiting" }, t("waiting"))); return; }
    const { hosts, edges } = connect(programs);
    const width = Math.max(300, (this.element.clientWidth || 900) / unit() - 20), box = width < narrow ? width - bendRoom - 4 : Math.min(300, width * 0.36);
    const places = layOut(programs.length + hosts.length, [...edges.values()], width, box);
    const shape = JSON.stringify([width, currentLanguage(), programs.map((one) => [one.process.pid, one.ended !== null]), hosts, [...edges.keys()]]);
    if (shape !== this.shape) { this.shape = shape; this.build(programs, hosts, edges, places, width, box); }
    programs.forEach((program, n) => this.fillBox(program, n, box, chosen));
    for (const [key, edge] of edges) this.fillEdge(key, edge);
  }

  private build(programs: Program[], hosts: string[], edges: Map<string, Edge>, places: Place[], width: number, box: number): void {
    const height = edgeRoom * 2 - gap + Math.max(...places.map((place) => place.y + tall + gap - edgeRoom));
    const lines = [...edges].map(([key, edge]) => {
      const { d, x, y } = curve(places[edge.a]!, places[edge.b]!, width, box, edge.a === edge.b);
      return svg("g", { "data-edge": key, class: `edge ${edge.link}` }, svg("path", { d, class: "wire" }), svg("path", { d, class: "flow" }), svg("text", { x, y: y - 10, "text-anchor": "middle" }), svg("text", { x, y: y + 20, "text-anchor": "middle", class: "below" }));
    });
    const boxes = places.map(({ x, y }, n) => {
      const program = programs[n], room = box - 32;
      const name = program ? nameOf(program.process.program) : hosts[n - programs.length]!;
      const group = svg("g", { class: `node ${program ? (program.ended === null ? "" : "ended") : "host"}`, transform: `translate(${x} ${y})`, tabindex: 0, "data-node": n }, svg("rect", { width: box, height: tall, rx: 14 }),
        svg("text", { x: 16, y: 27, class: "name" }, clip(name, room - (program ? 62 : 0), 8)),
        svg("text", { x: box - 16, y: 27, class: "small", "text-anchor": "end" }, program ? String(program.process.pid) : ""),
        svg("text", { x: 16, y: 46, class: "small" }, program ? clip(program.process.devices, room, 7.3) : t("another_host")),
        svg("text", { x: 16, y: 64, class: "small things" }), svg("g", { class: "dots", transform: "translate(21 81)" }));
      if (program) {
        group.append(svg("rect", { x: 16, y: tall - 9, width: 0, height: 3, rx: 1.5, class: "fill" }));
        group.addEventListener("click", () => this.onProgram(program.process.pid));
      }
      return group;
    });
    replace(this.element, svg("svg", { viewBox: `0 0 ${width} ${height}`, width: width * unit(), height: height * unit(), role: "img", "aria-label": t("live_map") }, ...lines, ...boxes));
  }

  private fillBox(program: Program, n: number, box: number, chosen: string): void {
    const node = this.element.querySelector<SVGElement>(`[data-node="${n}"]`);
    if (!node) return;
    const { counters } = program.process, room = box - 32;
    const faults = ["dropped", "duplicated", "reordered", "corrupted", "delayed"].reduce((sum, kind) => sum + (counters[`faults_${kind}`] ?? 0), 0);
    const queued = program.pairs.reduce((sum, one) => sum + (one.now.levels?.send_queued ?? 0), 0), capacity = program.pairs.reduce((sum, one) => sum + (one.now.levels?.send_capacity ?? 0), 0);
    const waiting = Math.max(0, ...program.pairs.map((one) => one.now.levels?.completions_waiting ?? 0));
    const parts = [`${shortCount(program.pairs.length)} QP`, counters["completion_queues"] === undefined ? "" : `${counters["completion_queues"]} CQ`, counters["memory_keys"] === undefined ? "" : `${counters["memory_keys"]} MR`];
    if (program.ended !== null) parts.push(t("ended"));
    else {
      if (faults) parts.push(`⚡ ${shortCount(faults)} ${t("faults")}`);
      if (queued) parts.push(`${shortCount(queued)} ${t("wait")}`);
      else if (waiting) parts.push(`${shortCount(waiting)} ${t("unpolled")}`);
    }
    setText(node.querySelector(".things")!, clip(parts.filter(Boolean).join(" · "), room, 7.3));
    setAttribute(node.querySelector(".fill")!, "width", String(program.ended !== null || !capacity ? 0 : Math.round(room * Math.min(1, queued / capacity))));
    const most = Math.max(1, Math.floor(room / dotStep)), shown = program.pairs.slice(0, program.pairs.length > most ? most - 2 : most);
    const dots = node.querySelector<SVGElement>(".dots")!, shape = shown.map((one) => one.now.state + (one.key === chosen ? "!" : "")).join() + program.pairs.length;
    if (dots.dataset.shape === shape) return;
    dots.dataset.shape = shape;
    replace(dots, ...shown.map((one, at) => this.dot(one, at, chosen)), program.pairs.length > shown.length ? svg("text", { x: shown.length * dotStep - 4, y: 4, class: "small" }, `+${shortCount(program.pairs.length - shown.length)}`) : null);
  }

  // RTS is filled, ERR is crossed, other states are rings.
  private dot(one: Watched, at: number, chosen: string): SVGElement {
    const x = at * dotStep, { state } = one.now;
    const dot = svg("g", { class: `dot ${state} ${one.key === chosen ? "chosen" : ""}`, transform: `translate(${x} 0)` }, svg("title", {}, `QP 0x${one.now.qpn.toString(16)} ${one.now.type} ${state}`),
      svg("circle", { r: 5 }), ...(state === "ERR" ? [svg("path", { d: "M-2.5-2.5l5 5M2.5-2.5l-5 5" })] : []));
    dot.addEventListener("click", (event) => { event.stopPropagation(); this.onPair(one.key); });
    return dot;
  }

  private fillEdge(key: string, edge: Edge): void {
    const group = this.element.querySelector<SVGElement>(`[data-edge="${CSS.escape(key)}"]`);
    if (!group) return;
    const rate = edge.pairs.reduce((sum, one) => sum + rateOf(one.sent, one), 0);
    group.classList.toggle("moving", rate > 0);
    group.classList.toggle("trouble", edge.pairs.some((one) => rateOf(one.resent, one) > 0));
    group.classList.toggle("failed", edge.pairs.some((one) => one.now.state === "ERR"));
    group.classList.toggle("ended", edge.pairs.every((one) => one.gone));
    const [wire, flow, above, below] = [...group.children] as SVGElement[];
    // Coarse steps keep the line from flickering.
    wire!.style.strokeWidth = String(Math.min(9, Math.round((1.5 + Math.log10(1 + rate / 1e4) * 1.5) * 2) / 2));
    flow!.style.animationDuration = `${Math.max(0.5, Math.round((3 - Math.log10(1 + rate / 1e3) * 0.45) * 4) / 4)}s`;
    setText(above!, rate > 0 ? `${octets(Math.round(rate))}/s` : "");
    setText(below!, edge.link + (edge.pairs.length > 2 ? ` · ${edge.pairs.length} QP` : ""));
  }
}

// Queue pairs that name each other connect their programs. Any other peer is on a host that is not visible from here.
function connect(programs: Program[]): { hosts: string[]; edges: Map<string, Edge> } {
  const owner = new Map<string, number>(), hosts: string[] = [], edges = new Map<string, Edge>();
  programs.forEach((program, n) => program.pairs.forEach(({ now }) => owner.set(`${now.qpn}:${now.peer_qpn}`, n)));
  programs.forEach((program, n) => program.pairs.forEach((one) => {
    const { now } = one;
    if (!now.peer_qpn) return;
    let to = owner.get(`${now.peer_qpn}:${now.qpn}`);
    if (to === undefined) {
      if (!hosts.includes(now.peer)) hosts.push(now.peer);
      to = programs.length + hosts.indexOf(now.peer);
    }
    const key = `${Math.min(n, to)}-${Math.max(n, to)}-${now.link}`, edge = edges.get(key) ?? { a: Math.min(n, to), b: Math.max(n, to), link: now.link, pairs: [] };
    edge.pairs.push(one);
    edges.set(key, edge);
  }));
  return { hosts, edges };
}

// Two columns with connected programs opposite each other, or one column.
function layOut(nodes: number, edges: Edge[], width: number, box: number): Place[] {
  const column = new Array<number>(nodes).fill(-1), rows = [0, 0], places: Place[] = new Array<Place>(nodes);
  const single = width < narrow, row = (side: number) => rows[single ? 0 : side]!++;
  const put = (n: number, side: number) => { column[n] = side; places[n] = { x: single ? 4 : side === 0 ? edgeRoom : width - box - edgeRoom, y: edgeRoom + row(side) * (tall + gap) }; };
  for (let n = 0; n < nodes; ++n) {
    if (column[n]! >= 0) continue;
    put(n, rows[0]! <= rows[1]! ? 0 : 1);
    const queue = [n];
    while (queue.length) {
      const at = queue.shift()!;
      for (const edge of edges) {
        const other = edge.a === at ? edge.b : edge.b === at ? edge.a : -1;
        if (other >= 0 && column[other]! < 0) { put(other, 1 - column[at]!); queue.push(other); }
      }
    }
  }
  return places;
}

function curve(a: Place, b: Place, width: number, box: number, itself: boolean): { d: string; x: number; y: number } {
  const left = a.x < width / 2, same = a.x === b.x, middle = tall / 2;
  const x0 = left ? a.x + box : a.x, x1 = same ? x0 : b.x < width / 2 ? b.x + box : b.x;
  const y0 = a.y + middle - (itself ? 16 : 0), y1 = b.y + middle + (itself ? 16 : 0);
  const bend = same ? (left ? 1 : -1) * (width < narrow ? bendRoom * 0.62 : 90) : (x1 - x0) * 0.4;
  return { d: `M${x0} ${y0} C${x0 + bend} ${y0} ${x1 + (same ? bend : -bend)} ${y1} ${x1} ${y1}`, x: same ? x0 + bend * 0.8 : (x0 + x1) / 2, y: (y0 + y1) / 2 };
}

function clip(text: string, width: number, letter: number): string {
  const room = Math.max(3, Math.floor(width / letter));
  return text.length > room ? text.slice(0, room - 1) + "…" : text;
}
