// Creates elements without markup: content of a capture becomes text, never HTML.

type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | ((event: never) => void) | null | undefined>;

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, String(value));
  }
  append(element, children);
  return element;
}

export function append(parent: Element, children: Child[]): void {
  for (const child of children) if (child !== null && child !== undefined && child !== false) parent.append(child instanceof Node ? child : String(child));
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}

// Skips unchanged text, because setting it makes the browser lay out and paint again.
export function setText(element: Element, text: string): void { if (element.textContent !== text) element.textContent = text; }
export function setAttribute(element: Element, name: string, value: string): void { if (element.getAttribute(name) !== value) element.setAttribute(name, value); }

const svgSpace = "http://www.w3.org/2000/svg";
export function svg(tag: string, attributes: Record<string, string | number> = {}, ...children: (Node | string)[]): SVGElement {
  const element = document.createElementNS(svgSpace, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  for (const child of children) element.append(child);
  return element;
}

export function icon(path: string): SVGElement {
  return svg("svg", { viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true", fill: "none", stroke: "currentColor", "stroke-width": 1.7, "stroke-linecap": "round", "stroke-linejoin": "round" }, svg("path", { d: path }));
}

// The scale of the page: its font size, which follows the screen and the reader's settings.
export function unit(): number { return parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1; }

// A canvas that follows its place on the page, in device pixels. `width` and `height` are in units, so the drawing
// scales with the text around it. `draw` is called at most once a frame.
export class Surface {
  readonly canvas: HTMLCanvasElement;
  readonly context: CanvasRenderingContext2D;
  width = 0;
  height = 0;
  private unit = 1;
  private scheduled = false;

  constructor(attributes: Attributes, private readonly draw: (surface: Surface) => void, private readonly resized: () => void = () => {}) {
    this.canvas = h("canvas", attributes);
    this.context = this.canvas.getContext("2d", { alpha: true })!;
    new ResizeObserver(() => this.resize()).observe(this.canvas);
  }

  private resize(): void {
    const scale = window.devicePixelRatio || 1;
    const box = this.canvas.getBoundingClientRect();
    this.unit = unit();
    this.width = box.width / this.unit;
    this.height = box.height / this.unit;
    this.canvas.width = Math.max(1, Math.round(box.width * scale));
    this.canvas.height = Math.max(1, Math.round(box.height * scale));
    if (box.height > 2) this.resized();
    this.paint();
  }

  // The position of the pointer, in units.
  at(event: MouseEvent): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    return { x: (event.clientX - box.left) / this.unit, y: (event.clientY - box.top) / this.unit };
  }

  redraw(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => { this.scheduled = false; this.paint(); });
  }

  private paint(): void {
    if (this.width < 2 || this.height < 2) return;
    const scale = (window.devicePixelRatio || 1) * this.unit;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height);
    this.draw(this);
  }
}

// The colours of the theme for canvases; read again when the theme changes.
export interface Palette {
  ink: string; faint: string; line: string; panel: string; ground: string; request: string; answer: string; repeat: string;
  nak: string; rnr: string; lost: string; cm: string; accent: string; sans: string; mono: string;
}
let current: Palette | null = null;
export function palette(): Palette {
  if (current) return current;
  const style = getComputedStyle(document.documentElement);
  const value = (name: string) => style.getPropertyValue(name).trim();
  current = {
    ink: value("--ink"), faint: value("--faint"), line: value("--line"), panel: value("--panel"), ground: value("--ground"),
    request: value("--request"), answer: value("--answer"), repeat: value("--repeat"), nak: value("--nak"), rnr: value("--rnr"),
    lost: value("--lost"), cm: value("--cm"), accent: value("--accent"), sans: value("--sans"), mono: value("--mono"),
  };
  return current;
}
export function forgetPalette(): void { current = null; }
