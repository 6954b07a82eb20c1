// Where states come from: the session, the events of the server, and its history of ten minutes.

const LATE_MS = 3500;
const AGAIN_MS = 2000;
const DEAD_MS = 10000;
const JSON_TYPE = { "Content-Type": "application/json" };

let token = null;

// The token stands in the fragment, which browsers do not send; it is exchanged for a cookie and leaves the address. The page keeps it for the
// case that the server starts anew with the same token.
export async function session() {
  const given = location.hash.slice(1);
  if (given) {
    token = new URLSearchParams(given).get("token") || given;
    history.replaceState(null, "", location.pathname + location.search);
  }
  if (token) await fetch("session", { method: "POST", headers: JSON_TYPE, body: JSON.stringify({ token }) });
}

// What this page can do: { allow_changes, paths }; "refused" if the server does not admit it, null if there is no answer, or one of a proxy.
async function abilities() {
  try {
    const answer = await fetch("api/page");
    if (answer.ok) return await answer.json();
    return [401, 403, 421].includes(answer.status) ? "refused" : null;
  } catch {
    return null;
  }
}

// Calls onstate(state) for each state, onstatus("live" | "stale" | "refused") when it changes, and onopen(abilities) whenever a server has
// answered: at first, and after a lost connection, when it may be another one. EventSource connects again by itself after a lost connection,
// but neither after another answer (of a proxy whose server is away, of a server with other sessions) nor when a connection is dead without
// an end (a computer that has slept). Then it is made again here.
export function follow(onstate, onstatus, onopen) {
  let last = Date.now();
  let tried = Date.now();
  let known = "";
  let source = null;
  const say = (word) => { if (word !== known) { known = word; onstatus(word); } };

  async function again() {
    tried = Date.now();
    source.close();
    if ((await abilities()) === "refused") {
      await session().catch(() => null);
      if ((await abilities()) === "refused") say("refused");
    }
    open();
  }

  async function opened() {
    const able = await abilities();
    if (able && able !== "refused") onopen(able);
  }

  function open() {
    const made = new EventSource("api/events");
    source = made;
    made.addEventListener("open", opened);
    made.addEventListener("state", (event) => {
      last = Date.now();
      say("live");
      onstate(JSON.parse(event.data));
    });
    made.onerror = () => {
      if (made.readyState === EventSource.CLOSED) setTimeout(() => made === source && again(), AGAIN_MS);
    };
  }

  open();
  setInterval(() => {
    const now = Date.now();
    if (known !== "refused" && now - last > LATE_MS) say("stale");
    if (now - Math.max(last, tried) > DEAD_MS) again();
  }, 1000);
}

export async function moments() {
  const answer = await fetch("api/history");
  return answer.ok ? (await answer.json()).frames : [];
}

let waiting = null;

// The state of a moment; null if another was asked for meanwhile, or the server has none.
export async function past(at) {
  if (waiting) waiting.abort();
  const asked = new AbortController();
  waiting = asked;
  try {
    const answer = await fetch(`api/history?at_ms=${at}`, { signal: asked.signal });
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

// Asks the server to change something. Returns { ok, answer }, where answer is its JSON, or a sentence when ok is false.
export async function change(path, wanted) {
  try {
    const answer = await fetch(path, { method: "POST", headers: JSON_TYPE, body: JSON.stringify(wanted) });
    return answer.ok ? { ok: true, answer: await answer.json() } : { ok: false, answer: (await answer.text()).trim() };
  } catch {
    return { ok: false, answer: "the server has not answered; whether something was changed is not known" };
  }
}
