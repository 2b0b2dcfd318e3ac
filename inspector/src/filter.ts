// The filter language of packets, the same as in `rrdma decode` (src/tools/decode/packet_filter.h):
//
//   condition = qp=N | peer=ADDRESS | op=NAME | psn(=|<|>)N | len(=|<|>)N | rkey=N | status=ANSWER | errors
//
// All conditions must hold.
import { type Capture, Mark, none } from "./capture";

export type PacketTest = (packet: number) => boolean;
export const answers = ["ack", "nak", "rnr", "sequence", "invalid", "access", "operational", "rej"] as const;

// "nak access", "ack", "rnr", "rej"; empty if the packet answers nothing.
function answerOf(capture: Capture, i: number): string {
  if (capture.cm[i]) return capture.label(i) === "REJ" ? "rej" : "";
  const marks = capture.marks[i]!;
  if (marks & Mark.rnr) return "rnr";
  if (marks & Mark.nak) return `nak ${["sequence", "invalid", "access", "operational"][capture.syndrome[i]! & 31] ?? ""}`.trim();
  return /ACKNOWLEDGE|RESPONSE (FIRST|LAST|ONLY)/.test(capture.opcodeName(i)) ? "ack" : "";
}

// Whether a text is in the filter language at all: the search box also finds connections by plain words.
export function isFilter(text: string): boolean {
  return text.split(/\s+/).some((word) => /^(qp|peer|op|psn|len|rkey|status)[=<>]/.test(word) || word === "errors");
}

// Null if a word is wrong.
export function parseFilter(capture: Capture, text: string): PacketTest | null {
  const tests: PacketTest[] = [];
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const [, name, how, value] = /^(\w+)([=<>])(.+)$/.exec(word) ?? [, word, "", ""];
    const number = Number(value), fits = (of: number) => how === "=" ? of === number : how === "<" ? of < number : of > number;
    const connectionOf = (i: number) => capture.connection[i] === none ? undefined : capture.header.connections[capture.connection[i]!];
    if (word === "errors") tests.push((i) => Boolean(capture.marks[i]! & (Mark.bad | Mark.nak | Mark.rnr | Mark.remark)) || answerOf(capture, i) === "rej");
    else if ((name === "psn" || name === "len" || name === "rkey") && value && !Number.isNaN(number)) {
      const column = { psn: capture.psn, len: capture.octets, rkey: capture.rkey }[name];
      tests.push((i) => connectionOf(i) !== undefined && (name !== "rkey" || column[i]! !== 0) && fits(column[i]!));
    } else if (name === "qp" && how === "=" && value && !Number.isNaN(number)) tests.push((i) => { const c = connectionOf(i); return c !== undefined && (c.a.qp === number || c.b.qp === number); });
    else if (name === "peer" && how === "=" && value) tests.push((i) => { const c = connectionOf(i); return c !== undefined && (c.a.address === value || c.b.address === value); });
    else if (name === "op" && how === "=" && value) {
      const wanted = value.toUpperCase().replace(/_/g, " ");
      tests.push((i) => `${capture.opcodeName(i)} ${capture.label(i)}`.toUpperCase().includes(wanted));
    } else if (name === "status" && how === "=" && (answers as readonly string[]).includes(value!)) tests.push((i) => answerOf(capture, i).split(" ").includes(value!));
    else return null;
  }
  return tests.length ? (i) => tests.every((test) => test(i)) : null;
}

// The packets that pass, at most `most` of them, and their number.
export function findPackets(capture: Capture, test: PacketTest, most: number): { packets: number[]; count: number } {
  const packets: number[] = [];
  let count = 0;
  for (let i = 0; i < capture.size; ++i) {
    if (!test(i)) continue;
    if (++count <= most) packets.push(i);
  }
  return { packets, count };
}
