// The snapshots that `rrdma inspect` sends four times a second, with the data of `rrdma stat` and `rrdma explain`,
// and the history that the page keeps of them.

// The current fill levels of a queue pair; null if the program does not publish them.
export interface Levels {
  send_queued: number; send_capacity: number; receive_posted: number; receive_capacity: number;
  oldest_psn: number; next_psn: number; under_way: number; window: number; expected_psn: number;
  round_trip_ns: number; completions_waiting: number; send_cq: number; receive_cq: number;
}
export interface QueuePair {
  qpn: number; type: string; state: string; link: string; path_mtu: number; peer_qpn: number; peer: string;
  sent_messages: number; received_messages: number; sent_octets: number; received_octets: number;
  packets_resent: number; ack_timeouts: number; sequence_naks: number; rnr_naks_received: number; packets_lost?: number; probes_sent?: number; levels?: Levels | null;
}
export interface Process { pid: number; uid: number; program: string; devices: string; age_ms: number; counters: Record<string, number>; queue_pairs: QueuePair[] }
export interface Said {
  time_ns: number; last_time_ns: number; times: number; severity: string; call: string; sentence: string;
  source?: { module: string; address: number; function: string; line: string };  // the program's call
  failure?: { status_name?: string; peer?: string; qpn?: number; wr_id?: number; remedy: string[] };
}
export interface Explained { pid: number; program: string; running: boolean; sentences: Said[] }
export interface SetFault { number: number; fault: string; injected: number }
export interface Captured { number: number; pid: number; state: "running" | "ready" | "failed" }
export interface Look { time_ns: string; problem?: string; faults?: SetFault[]; captures?: Captured[]; stat: { processes: Process[] }; explained: { en: Explained[]; zh: Explained[] } }

export const historyMax = 480;  // two minutes
const remembered = 3000;        // queue pairs
const endedFor = 30_000;        // milliseconds that a program stays on the map after it ended

// The states that every queue pair passes in this order.
export const wayUp = ["RESET", "INIT", "RTR", "RTS"];

export interface Watched {
  key: string; pid: number; program: string; now: QueuePair; gone: boolean;
  states: { state: string; at: number | null }[];  // null: passed before the first snapshot
  times: number[]; sent: number[]; received: number[]; resent: number[]; roundTrip: number[];
}
export interface Program { process: Process; pairs: Watched[]; ended: number | null }

export function nameOf(program: string): string { return program.replace(/^.*\//, ""); }

// `rrdma fault` reports injected faults like other errors, under this name of a call.
export function isInjection(said: Said): boolean { return /^fault \d+$/.test(said.call); }

export class Memory {
  readonly watched = new Map<string, Watched>();
  private readonly known = new Map<number, Program>();
  private readonly injections = new Map<number, Set<number>>();  // injected faults: milliseconds, by process

  take(look: Look): void {
    const now = Number(BigInt(look.time_ns) / 1000000n), present = new Set<string>();
    for (const process of look.stat.processes) {
      const pairs = process.queue_pairs.map((pair) => this.see(process, pair, now));
      for (const one of pairs) present.add(one.key);
      this.known.set(process.pid, { process, pairs, ended: null });
    }
    for (const one of this.watched.values()) if (!present.has(one.key)) one.gone = true;
    const running = new Set(look.stat.processes.map((process) => process.pid));
    for (const [pid, program] of this.known) {
      if (running.has(pid)) continue;
      program.ended ??= now;
      if (now - program.ended > endedFor) this.known.delete(pid);
    }
  }

  // A failed work request reveals the state of its queue pair, even if no snapshot caught it.
  learn(explained: Explained[]): void {
    for (const { pid, sentences } of explained) for (const said of sentences) {
      const { severity, failure, last_time_ns } = said;
      if (isInjection(said)) { const times = this.injections.get(pid) ?? new Set<number>(); times.add(Math.round(last_time_ns / 1e6)); this.injections.set(pid, times); }
      const one = failure?.status_name && failure.qpn ? this.watched.get(`${pid}:${failure.qpn}`) : undefined;
      if (severity !== "error" || !one || one.now.type === "UD" || one.states.some((s) => s.state === "ERR")) continue;
      const at = last_time_ns / 1e6;
      if (at < (one.times[0] ?? 0)) continue;
      one.states.push({ state: "ERR", at });
      if (one.gone) one.now = { ...one.now, state: "ERR" };
    }
  }

  injectionsOf(pid: number): number[] { return [...this.injections.get(pid) ?? []]; }

  // The running programs, then those that ended a moment ago in their last state.
  programs(): Program[] {
    return [...this.known.values()].sort((x, y) => Number(x.ended !== null) - Number(y.ended !== null) || x.process.pid - y.process.pid);
  }

  forgetSome(except: string): void {
    if (this.watched.size <= remembered) return;
    for (const [key, one] of this.watched) if (one.gone && key !== except) this.watched.delete(key);
  }

  private see(process: Process, pair: QueuePair, now: number): Watched {
    const key = `${process.pid}:${pair.qpn}`;
    let one = this.watched.get(key);
    if (!one) {
      // A queue pair in RTS must have passed RESET, INIT and RTR.
      const passed = wayUp.includes(pair.state) ? wayUp.slice(0, wayUp.indexOf(pair.state)) : wayUp;
      one = { key, pid: process.pid, program: process.program, now: pair, gone: false, states: passed.map((state) => ({ state, at: null as number | null })), times: [], sent: [], received: [], resent: [], roundTrip: [] };
      this.watched.set(key, one);
    }
    const newest = one.states[one.states.length - 1];
    if (newest?.state !== pair.state) {
      // Several transitions may fall between two snapshots; the skipped states are known.
      const from = newest ? wayUp.indexOf(newest.state) : -1, to = wayUp.indexOf(pair.state);
      if (from >= 0 && to > from + 1) for (const state of wayUp.slice(from + 1, to)) one.states.push({ state, at: null });
      one.states.push({ state: pair.state, at: now });
    }
    one.now = pair;
    one.gone = false;
    one.times.push(now); one.sent.push(pair.sent_octets); one.received.push(pair.received_octets); one.resent.push(pair.packets_resent); one.roundTrip.push(pair.levels?.round_trip_ns ?? 0);
    if (one.times.length > historyMax) for (const list of [one.times, one.sent, one.received, one.resent, one.roundTrip]) list.shift();
    return one;
  }
}

// The rate per second, by the last snapshots.
export function rateOf(list: number[], one: Watched): number {
  const n = list.length, back = Math.min(4, n - 1);
  if (back < 1 || one.gone) return 0;
  return Math.max(0, (list[n - 1]! - list[n - 1 - back]!) / Math.max(1, one.times[n - 1]! - one.times[n - 1 - back]!) * 1000);
}
