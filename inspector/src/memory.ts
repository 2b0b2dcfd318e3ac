// The bytes that a packet writes into memory, and the bytes before, as far as the capture shows them: by earlier
// WRITEs to the same address, by READs from it, and by the old value that an atomic operation returns.
import { Mark, none, type Capture, type Details, type Field, type Selection } from "./capture";
import type { DetailsSource } from "./details";

const lookBack = 160;  // packets whose bytes are fetched
const shownOctets = 16;

export interface Written {
  address: bigint | null;  // null: not in the capture, for example for posted receives
  before: (number | null)[];  // null: unknown
  after: (number | null)[];
}

// The first field with this label, at any depth.
export function fieldText(details: Details, label: string): string {
  const find = (fields: Field[]): string => {
    for (const [name, text, , , children] of fields) {
      if (details.strings[name] === label) return text;
      const inside = children ? find(children) : "";
      if (inside) return inside;
    }
    return "";
  };
  return find(details.fields);
}

const numberIn = (text: string): bigint | null => { const found = /0x[0-9a-f]+|\d+/i.exec(text); return found ? BigInt(found[0]) : null; };
const octetsOf = (details: Details | null): number[] => (details?.payload?.match(/../g) ?? []).map((pair) => parseInt(pair, 16));
// The byte order in the memory of a little-endian machine.
const eight = (value: bigint): number[] => Array.from({ length: 8 }, (_, k) => Number(BigInt.asUintN(64, value) >> BigInt(8 * k) & 0xffn));
const arrived = (c: Capture, i: number) => !(c.marks[i]! & (Mark.lost | Mark.bad)) && !c.cm[i];
const begins = (name: string) => /FIRST|ONLY/.test(name);

// The packet that names the address which packet `place` writes to or reads from: the first packet of a WRITE, the
// request of a READ RESPONSE.
function headOf(s: Selection, place: number): number {
  const { capture: c } = s, packet = s.packets[place]!, name = c.opcodeName(packet), fromB = c.marks[packet]! & Mark.fromB;
  if (name.includes("READ RESPONSE")) return c.partner[packet]! === none ? -1 : c.partner[packet]!;
  for (let k = place; k >= Math.max(0, place - 4000); --k) {
    const i = s.packets[k]!, other = c.opcodeName(i);
    if ((c.marks[i]! & Mark.fromB) === fromB && other.includes("WRITE") && begins(other) && (c.psn[packet]! - c.psn[i]! & 0xffffff) < 4000) return i;
  }
  return -1;
}

async function addressOf(s: Selection, place: number, source: DetailsSource): Promise<bigint | null> {
  const packet = s.packets[place]!, head = headOf(s, place);
  const details = head < 0 ? null : await source.fetch(head);
  const base = details ? numberIn(fieldText(details, "Virtual address")) : null;
  if (base === null) return null;
  // All packets of a message except the last have the same size.
  const { capture: c } = s, index = c.psn[packet]! - c.psn[head]! & 0xffffff;
  const size = index === 0 ? 0 : c.opcodeName(packet).includes("LAST") ? c.octets[s.packets[Math.max(0, place - 1)]!]! : c.octets[packet]!;
  return base + BigInt(index * size);
}

// The memory of one end at `address` according to the packets before `place`; the newest packet wins.
async function knownAt(s: Selection, place: number, fromB: boolean, address: bigint, count: number, source: DetailsSource): Promise<(number | null)[]> {
  const { capture: c } = s, known: (number | null)[] = Array<number | null>(count).fill(null);
  const places: number[] = [];
  for (let k = Math.max(0, place - lookBack); k < place; ++k) {
    const i = s.packets[k]!, name = c.opcodeName(i), sentByB = (c.marks[i]! & Mark.fromB) !== 0;
    const writes = name.includes("WRITE") && sentByB === fromB, tells = name.includes("READ RESPONSE") && sentByB !== fromB;
    if (arrived(c, i) && (writes || tells)) places.push(k);
  }
  const found = await Promise.all(places.map(async (k) => ({ at: await addressOf(s, k, source), octets: octetsOf(await source.fetch(s.packets[k]!)) })));
  for (const { at, octets } of found) {
    if (at === null) continue;
    for (let k = 0; k < count; ++k) {
      const place = address + BigInt(k) - at;
      if (place >= 0n && place < BigInt(octets.length)) known[k] = octets[Number(place)]!;
    }
  }
  return known;
}

async function atomicAt(s: Selection, place: number, source: DetailsSource): Promise<Written | null> {
  const { capture: c } = s, packet = s.packets[place]!, request = await source.fetch(packet);
  const answer = c.partner[packet]! === none ? null : await source.fetch(c.partner[packet]!);
  if (!request) return null;
  const old = answer ? numberIn(fieldText(answer, "Original data")) : null, operand = numberIn(fieldText(request, "Swap") || fieldText(request, "Add")), compare = numberIn(fieldText(request, "Compare"));
  const swaps = c.opcodeName(packet).includes("COMPARE");
  const next = old === null || operand === null ? null : swaps ? (old === compare ? operand : old) : old + operand;
  const unknown = Array<number | null>(8).fill(null);
  return { address: numberIn(fieldText(request, "Virtual address")), before: old === null ? unknown : eight(old), after: next === null ? unknown : eight(next) };
}

// The first bytes that packet `place` writes. Null: it writes nothing, or its bytes are not in the capture.
export async function writtenAt(s: Selection, place: number, source: DetailsSource): Promise<Written | null> {
  const { capture: c } = s, packet = s.packets[place]!, name = c.opcodeName(packet), fromB = (c.marks[packet]! & Mark.fromB) !== 0;
  if (c.cm[packet]) return null;
  if (/COMPARE|FETCH/.test(name)) return atomicAt(s, place, source);
  if (!/SEND|WRITE|READ RESPONSE/.test(name)) return null;
  const octets = octetsOf(await source.fetch(packet)).slice(0, shownOctets);
  if (!octets.length) return null;
  const address = name.includes("WRITE") ? await addressOf(s, place, source) : null;
  const before = address === null ? octets.map(() => null) : await knownAt(s, place, fromB, address, octets.length, source);
  return { address, before, after: arrived(c, packet) ? octets : before };
}
