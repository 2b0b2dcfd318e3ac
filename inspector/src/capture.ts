// A capture as the tool delivers it (src/inspect/capture_image.h): columns of numbers, sorted by time.

import type { Bilingual } from "./text";

export const none = 0xffffffff;

// Bits of `marks`. Keep in sync with src/inspect/analysis.h.
export const Mark = {
  fromB: 1, request: 2, endsMessage: 4, ackRequest: 8, repeat: 16, nak: 32, rnr: 64, lost: 128,
  bad: 256, remark: 512, gap: 1024, congestion: 2048, arrival: 4096,
} as const;
export const problem = Mark.repeat | Mark.nak | Mark.rnr | Mark.lost | Mark.bad | Mark.remark | Mark.gap;

export interface End {
  address: string; qp: number | null; owner: string;
  packets: number; octets: number; messages: number; repeats: number; naks: number; rnr: number; lost: number; missing: number;
}
export interface Connection { transport: string; a: End; b: End; mtu: number; bad: number; congestion: number }
export interface Handshake { a: string; b: string; qps: (number | null)[]; connection: number | null; packets: number[] }
export interface Finding {
  kind: string; grave: boolean; name: string; title: Bilingual; meaning: Bilingual; causes: Bilingual[]; checks: Bilingual[];
  exact?: Bilingual[];  // what the programs themselves wrote into the capture
  connection: number | null; count: number; packets: number[];
}
export interface FileNote { name: string; packets: number; foreign: number; left_out: number; offset_ns: number; fault: string }
// An event that is no packet: an injected fault at a port, a queue pair or a call. Uses the time base of packets.
export interface CaptureEvent { time: number; text: string }
export interface RpcCall { connection: number; call: number; method: string; status: string; asked: number; answered: number | null; octets: [number, number]; items: number }
interface Header {
  files: FileNote[]; first_ns: string; packets: number; truncated: boolean; opcodes: string[]; cm_messages: Record<string, string>;
  remarks: Record<string, string>; events: CaptureEvent[]; connections: Connection[]; handshakes: Handshake[]; findings: Finding[];
  repairs: [lost: number, repair: number | null, by: number, delayed: number][]; rpc: RpcCall[];
  columns: { name: string; type: string; offset: number; count: number }[];
}

export type Field = [label: number, text: string, meaning: number, key: number, children?: Field[]];
export interface Details { index: number; verdict: string; reason: string; fields: Field[]; payload?: string; strings: string[] }

const magic = "RRDMA-1\n";

export class Capture {
  readonly header: Header;
  readonly time: Float64Array;
  readonly travel: Float32Array;
  readonly connection: Uint32Array;
  readonly psn: Uint32Array;
  readonly octets: Uint32Array;
  readonly partner: Uint32Array;
  readonly number: Uint32Array;
  readonly rkey: Uint32Array;
  readonly marks: Uint16Array;
  readonly opcode: Uint8Array;
  readonly syndrome: Uint8Array;
  readonly cm: Uint8Array;
  relativePsns = true;
  private readonly bases: Uint32Array;  // the first PSN that each side of each connection requested with
  private readonly order: Uint32Array;  // packets by connection, sorted by time within each
  private readonly start: Uint32Array;

  constructor(image: ArrayBuffer) {
    const text = new TextDecoder();
    if (text.decode(new Uint8Array(image, 0, Math.min(magic.length, image.byteLength))) !== magic) throw new Error("not a capture of rrdma inspect");
    const length = new DataView(image).getUint32(magic.length, true);
    this.header = JSON.parse(text.decode(new Uint8Array(image, magic.length + 4, length))) as Header;
    const base = (magic.length + 4 + length + 7) & ~7;
    const place = (name: string) => {
      const column = this.header.columns.find((c) => c.name === name);
      if (!column) throw new Error(`no column ${name}`);
      return [image, base + column.offset, column.count] as const;
    };
    this.time = new Float64Array(...place("time"));
    this.travel = new Float32Array(...place("travel"));
    this.connection = new Uint32Array(...place("connection"));
    this.psn = new Uint32Array(...place("psn"));
    this.octets = new Uint32Array(...place("octets"));
    this.partner = new Uint32Array(...place("partner"));
    this.number = new Uint32Array(...place("number"));
    this.rkey = new Uint32Array(...place("rkey"));
    this.marks = new Uint16Array(...place("marks"));
    this.opcode = new Uint8Array(...place("opcode"));
    this.syndrome = new Uint8Array(...place("syndrome"));
    this.cm = new Uint8Array(...place("cm"));
    [this.order, this.start] = this.sortByConnection();
    this.bases = new Uint32Array(2 * this.header.connections.length).fill(none);
    for (let i = 0; i < this.time.length; ++i) {
      const at = 2 * this.connection[i]! + (this.marks[i]! & Mark.fromB ? 1 : 0);
      if (this.connection[i] !== none && this.marks[i]! & Mark.request && this.bases[at] === none) this.bases[at] = this.psn[i]!;
    }
  }

  // "+5": relative to the first request of the side that chose the number. Answers use the numbers of the other side.
  psnText(i: number): string {
    const fromB = (this.marks[i]! & Mark.fromB) !== 0, asks = (this.marks[i]! & Mark.request) !== 0;
    const base = this.connection[i] === none ? none : this.bases[2 * this.connection[i]! + (fromB === asks ? 1 : 0)]!;
    if (!this.relativePsns || base === none) return String(this.psn[i]);
    const ahead = (this.psn[i]! - base) & 0xffffff;
    return ahead < 0x800000 ? `+${ahead}` : `−${0x1000000 - ahead}`;
  }

  private sortByConnection(): [Uint32Array, Uint32Array] {
    const count = this.header.connections.length;
    const start = new Uint32Array(count + 2);
    const bucket = (i: number) => Math.min(this.connection[i]!, count);
    for (let i = 0; i < this.time.length; ++i) ++start[bucket(i) + 1]!;
    for (let c = 0; c <= count; ++c) start[c + 1]! += start[c]!;
    const next = start.slice();
    const order = new Uint32Array(this.time.length);
    for (let i = 0; i < this.time.length; ++i) order[next[bucket(i)]!++] = i;
    return [order, start];
  }

  get size(): number { return this.time.length; }
  get span(): number { return this.size === 0 ? 0 : this.time[this.size - 1]!; }

  packetsOf(connection: number): Uint32Array {
    return this.order.subarray(this.start[connection]!, this.start[connection + 1]!);
  }
  // The time of the first packet of its connection: the origin of displayed times.
  firstOf(i: number): number {
    const connection = Math.min(this.connection[i]!, this.header.connections.length);
    return this.time[this.order[this.start[connection]!]!]!;
  }
  // The time of day by the clock of the capture's host.
  clock(i: number): string {
    const ns = BigInt(this.header.first_ns) + BigInt(Math.round(this.time[i]!));
    return `${new Date(Number(ns / 1000000n)).toISOString().slice(0, 19)}.${String(ns % 1000000000n).padStart(9, "0")}Z`.replace("T", " ");
  }
  opcodeName(i: number): string {
    return this.connection[i] === none ? "?" : this.header.opcodes[this.opcode[i]!]!;
  }
  // "SEND FIRST", "ACK", "NAK, sequence", "REQ": short, for the ladder.
  label(i: number): string {
    if (this.cm[i]) return this.header.cm_messages[String(this.cm[i])] ?? "MAD";
    const marks = this.marks[i]!;
    const name = this.opcodeName(i).replace(/^(RC|UC|UD|XRC|RD|RRDMA) /, "");
    if (name === "ACKNOWLEDGE") {
      if (marks & Mark.rnr) return "RNR NAK";
      if (marks & Mark.nak) return "NAK " + (["sequence error", "invalid request", "access error", "operational error"][this.syndrome[i]! & 31] ?? "?");
      return "ACK";
    }
    return name;
  }
}

// The packets that are shown together: those of a connection, or of a handshake. Prefix sums count any range in
// constant time.
export class Selection {
  readonly origin: number;  // the capture time of its first packet; its own times count from here
  readonly time: Float64Array;
  readonly sums: Record<"a" | "b" | "repeat" | "nak" | "lost" | "fault", Uint32Array>;

  constructor(readonly capture: Capture, readonly packets: Uint32Array) {
    const n = packets.length;
    this.origin = n ? capture.time[packets[0]!]! : 0;
    this.time = new Float64Array(n);
    const sum = () => new Uint32Array(n + 1);
    this.sums = { a: sum(), b: sum(), repeat: sum(), nak: sum(), lost: sum(), fault: sum() };
    const { a, b, repeat, nak, lost, fault } = this.sums;
    for (let k = 0; k < n; ++k) {
      const i = packets[k]!;
      const marks = capture.marks[i]!;
      this.time[k] = capture.time[i]! - this.origin;
      const fromB = marks & Mark.fromB;
      a[k + 1] = a[k]! + (fromB ? 0 : 1);
      b[k + 1] = b[k]! + (fromB ? 1 : 0);
      repeat[k + 1] = repeat[k]! + (marks & Mark.repeat ? 1 : 0);
      nak[k + 1] = nak[k]! + (marks & (Mark.nak | Mark.rnr) ? 1 : 0);
      lost[k + 1] = lost[k]! + (marks & (Mark.lost | Mark.gap) ? 1 : 0);
      fault[k + 1] = fault[k]! + (marks & Mark.remark ? 1 : 0);
    }
  }

  get size(): number { return this.packets.length; }
  get first(): number { return this.size ? this.time[0]! : 0; }
  get last(): number { return this.size ? this.time[this.size - 1]! : 0; }
  count(what: keyof Selection["sums"], from: number, to: number): number { return this.sums[what][to]! - this.sums[what][from]!; }
  // The first place whose time is not lower.
  lowerBound(time: number): number {
    let low = 0, high = this.size;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.time[middle]! < time) low = middle + 1; else high = middle;
    }
    return low;
  }
  placeOf(packet: number): number {
    let low = 0, high = this.size;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.packets[middle]! < packet) low = middle + 1; else high = middle;
    }
    return low < this.size && this.packets[low] === packet ? low : -1;
  }
  // The next place with a problem in the direction of `step`; -1 if there is none.
  nextProblem(from: number, step: 1 | -1): number {
    for (let k = from + step; k >= 0 && k < this.size; k += step)
      if (this.capture.marks[this.packets[k]!]! & problem) return k;
    return -1;
  }
}

// Times from a request that ends a message to the answer that covers it, for both sides. `unknown`: requests that were
// captured only where they arrived; the round trip of their sender cannot be known.
export function latencies(selection: Selection): { a: Float64Array; b: Float64Array; unknown: { a: number; b: number } } {
  const { capture } = selection;
  const sides: number[][] = [[], []], unknown = [0, 0];
  for (let k = 0; k < selection.size; ++k) {
    const i = selection.packets[k]!;
    const marks = capture.marks[i]!;
    if (!(marks & Mark.request) || !(marks & Mark.endsMessage) || marks & Mark.repeat) continue;
    const answer = capture.partner[i]!;
    if (answer === none) continue;
    const side = marks & Mark.fromB ? 1 : 0;
    if (marks & Mark.arrival) { ++unknown[side]!; continue; }
    // Add the answer's travel time, if the capture shows its arrival.
    const way = capture.travel[answer]!;
    sides[side]!.push(capture.time[answer]! + (Number.isNaN(way) ? 0 : way) - capture.time[i]!);
  }
  return { a: Float64Array.from(sides[0]!).sort(), b: Float64Array.from(sides[1]!).sort(), unknown: { a: unknown[0]!, b: unknown[1]! } };
}
