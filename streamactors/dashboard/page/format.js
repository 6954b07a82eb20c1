// Numbers as people read them. Unknown (null) is a dash.

const NONE = "–";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1, notation: "compact" });
const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

export const count = (value) => (known(value) ? whole.format(value) : NONE);
export const compact = (value) => (known(value) ? short.format(value) : NONE);
export const rate = (value) => (known(value) ? `${short.format(value)}/s` : NONE);
export const share = (value) => (known(value) ? `${Math.round(value * 100)} %` : NONE);
export const text = (value) => (known(value) && value !== "" ? String(value) : NONE);
export const yes = (value) => (value ? "yes" : "no");

export function bytes(value) {
  if (!known(value)) return NONE;
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
  return `${value < 10 && at > 0 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

export function duration(ms) {
  if (!known(ms)) return NONE;
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${Math.round(ms * 10) / 10} ms`;
  const s = ms / 1000;
  if (s < 120) return `${s.toFixed(1)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  if (s >= 172800) return `${whole.format(Math.floor(s / 86400))} d ${Math.floor((s % 86400) / 3600)} h`;
  return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
}

export const seconds = (s) => (known(s) ? duration(s * 1000) : NONE);
export const clock = (ms) => (known(ms) ? new Date(ms).toLocaleTimeString("en-GB") : NONE);
export const moment = (ms) => (known(ms) ? new Date(ms).toISOString().replace("T", " ").slice(0, 19) : NONE);
