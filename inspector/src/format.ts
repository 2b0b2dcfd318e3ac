// Formats numbers for people.

export function duration(ns: number, digits = 3): string {
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  const [unit, name] = size < 1e6 ? [1e3, "µs"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${trim(ns / unit, digits)} ${name}`;
}

// Uses as many decimals as a step of the axis needs, so that neighbouring labels differ.
export function timeAt(ns: number, step: number): string {
  const [unit, name] = step >= 1e9 ? [1e9, "s"] : step >= 1e6 ? [1e6, "ms"] : step >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  const text = Math.round(ns / unit).toString().replace(/\B(?=(\d{3})+$)/g, "\u2009");
  return `${text} ${name}`;
}

export function trim(value: number, digits: number): string {
  const text = value.toPrecision(digits);
  return text.includes("e") ? String(Math.round(value)) : text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

export function count(n: number): string {
  return n.toString().replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

export function shortCount(n: number): string {
  return n < 10000 ? String(n) : n < 1e6 ? `${trim(n / 1e3, 3)} k` : `${trim(n / 1e6, 3)} M`;
}

export function octets(n: number): string {
  return n < 1000 ? `${n} B` : n < 1e6 ? `${trim(n / 1e3, 3)} kB` : n < 1e9 ? `${trim(n / 1e6, 3)} MB` : `${trim(n / 1e9, 3)} GB`;
}

export function qp(number: number | null): string {
  return number === null ? "?" : "0x" + number.toString(16).padStart(6, "0");
}

// 1, 2 or 5 times a power of ten, at least `least`.
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-12)));
  for (const factor of [1, 2, 5, 10]) if (factor * power >= least) return factor * power;
  return 10 * power;
}
