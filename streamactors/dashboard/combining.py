"""Several processes under one page: their states, read from their own dashboards, become one State.

`combined` is pure; `Remote` reads one dashboard, `Combiner` all of them each second. The parts of a process carry its name; a process that does not answer is missing."""

from __future__ import annotations

import http.client
import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from streamactors.dashboard.history import History
from streamactors.dashboard.model import VERSION
from streamactors.dashboard.sampling import Frame
from streamactors.errors import StreamActorsError
from streamactors.log_limit import alike, log_limited

_log = logging.getLogger("streamactors.dashboard")

Json = dict[str, Any]
ANSWER_S: Final = 2.0
LISTS: Final = ("consumers", "windows", "stores", "latency", "spark", "dead_letters")
MOST_BANNERS: Final = 100


class DashboardUnreachable(StreamActorsError):
    """A dashboard does not answer, or refuses the token."""


class StateOf(Protocol):
    """Reads the state of one process; `state` raises DashboardUnreachable. `page`: its dashboard, once it is known."""

    name: str

    @property
    def page(self) -> Remote | None: ...
    def state(self) -> Json: ...
    def close(self) -> None: ...


class Remote:
    """The dashboard of another process, by the address that it has printed: `http://127.0.0.1:4040/#token=…`."""

    def __init__(self, url: str, name: str | None = None) -> None:
        """`name`: what messages call it, else its address. Raises DashboardUnreachable if the address lacks its token or is no address."""
        try:
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            parts, port = urlsplit(""), 0
        token = parts.fragment.removeprefix("token=")
        if parts.scheme not in ("http", "https") or not parts.hostname or not token:
            raise DashboardUnreachable(
                f"{url.partition('#')[0]}: give the address as the process has printed it, with #token=…"
            )
        self.name = name or f"{parts.hostname}:{port}"
        self.host, self.port = parts.hostname, port
        self.path = parts.path.rstrip("/")
        self.token = token
        self.tls = parts.scheme == "https"
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, port, timeout=ANSWER_S)

    @property
    def page(self) -> Remote:
        """The dashboard itself."""
        return self

    def state(self) -> Json:
        """Return the newest state. Raises DashboardUnreachable."""
        try:
            self._connection.request("GET", f"{self.path}/api/state", headers={"Authorization": f"Bearer {self.token}"})
            answer = self._connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise DashboardUnreachable(
                    f"{self.name}: {answer.status} {body[:200].decode('utf-8', 'replace').strip()}"
                )
            found: Json = json.loads(body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()
            raise DashboardUnreachable(f"{self.name} does not answer: {type(error).__name__} {error}") from None
        return found

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def combined(states: Sequence[Json], at_ms: int | None = None, numbers: Sequence[int] | None = None) -> Json:
    """Return one state of several processes. Ids of graphs get the number of their process in front; `numbers`: the place of each process among all,
    those that do not answer included."""
    if numbers is None:
        if len(states) == 1:
            return states[0]
        numbers = range(len(states))
    names = _names([state["process"] for state in states])
    parts = list(zip(numbers, names, states, strict=True))
    total: Json = {
        "version": VERSION,
        "at_ms": int(time.time() * 1000) if at_ms is None else at_ms,
        "process": _process([state["process"] for state in states]),
        "processes": [each for state in states for each in state["processes"]],
        "graphs": [
            {**graph, "id": f"{number}:{graph['id']}", "process": name}
            for number, name, state in parts
            for graph in state["graphs"]
        ],
        "broker": next((state["broker"] for state in states if state["broker"] is not None), None),
        "banners": _banners(parts),
        "stalls": [f"{name}: {text}" for _, name, state in parts for text in state["stalls"]],
    }
    for part in LISTS:
        total[part] = [{**each, "process": name} for _, name, state in parts for each in state[part]]
    return total


def _banners(parts: Sequence[tuple[int, str, Json]]) -> list[Json]:
    """Return the banners of all processes, those that hold a stream back first. What several processes see in the same cluster is said once."""
    found: dict[tuple[Any, ...], Json] = {}
    for number, name, state in parts:
        for each in state["banners"]:
            shared = each["kind"] == "broker"
            graph = each["graph"] if each["graph"] is None else f"{number}:{each['graph']}"
            sentence = each["sentence"] if shared else f"{name}: {each['sentence']}"
            key = (each["kind"], sentence) if shared else (number, len(found))
            found.setdefault(key, {**each, "graph": graph, "sentence": sentence, "process": name})
    return sorted(found.values(), key=lambda each: not each["holds"])[:MOST_BANNERS]


def _names(processes: Sequence[Json]) -> list[str]:
    """Return a name for each process; those of one program are told apart by their pids."""
    names = [each["name"] for each in processes]
    return [f"{each['name']} ({each['pid']})" if names.count(each["name"]) > 1 else each["name"] for each in processes]


def _process(processes: Sequence[Json]) -> Json:
    first = processes[0] if processes else {}
    cpu = [each["cpu_share"] for each in processes if each["cpu_share"] is not None]
    rss = [each["rss_bytes"] for each in processes if each["rss_bytes"] is not None]
    return {
        "name": first["name"] if len(processes) == 1 else f"{len(processes)} processes",
        "pid": 0,
        "host": first.get("host", ""),
        "started_ms": min((each["started_ms"] for each in processes), default=0),
        "python": first.get("python", ""),
        "streamactors": first.get("streamactors", ""),
        "cpu_share": round(sum(cpu), 3) if cpu else None,
        "rss_bytes": sum(rss) if rss else None,
    }


def _silent(text: str) -> Json:
    return {"kind": "page", "holds": True, "sentence": text, "graph": None, "stage": None, "process": None}


class Combiner:
    """Reads the dashboards of several processes once a second, on a thread of its own, and makes frames of them. Owner: the Dashboard."""

    def __init__(self, remotes: Sequence[StateOf]) -> None:
        self.history = History()
        self.watched = False
        self.listeners: list[Callable[[Frame], object]] = []
        self.silent: dict[StateOf, str] = {}
        """The dashboards that do not answer now, and why. Replaced as a whole, never changed: any thread may read it."""
        self.remotes = remotes
        self._last: Frame | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(min(32, max(1, len(remotes))), "dashboard: reads")
        self._thread = threading.Thread(target=self._work, name="dashboard: states", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2 * ANSWER_S)
        self._pool.shutdown()
        for remote in self.remotes:
            remote.close()

    @property
    def last(self) -> Frame:
        """The newest frame; read now if there is none yet. Any thread."""
        return self._last or self._make()

    def _work(self) -> None:
        while not self._stop.wait(1.0):
            try:
                self._make()
            except Exception as error:  # noqa: BLE001  # one wrong answer must not end the page
                cause = type(error), alike(error)
                log_limited(_log, logging.WARNING, cause, "the page shows no newer state: %s", cause[1], exc_info=error)

    def _make(self) -> Frame:
        with self._lock:
            found = list(self._pool.map(self._read, self.remotes))
            there = [(number, each) for number, each in enumerate(found) if not isinstance(each, str)]
            self.silent = {remote: why for remote, why in zip(self.remotes, found, strict=True) if isinstance(why, str)}
            alone = len(found) == 1
            state = combined([each for _, each in there], numbers=None if alone else [number for number, _ in there])
            state = {
                **state,
                "stalls": [*state["stalls"], *self.silent.values()],
                "banners": [*map(_silent, self.silent.values()), *state["banners"]],
            }
            text = json.dumps(state, ensure_ascii=False, separators=(",", ":"))
            self._last = frame = (state["at_ms"], text.encode("utf-8", "backslashreplace"))
        self.history.add(*frame)
        for listener in list(self.listeners):
            listener(frame)
        return frame

    @staticmethod
    def _read(remote: StateOf) -> Json | str:
        """Return the state of a dashboard; a sentence that says why, if it has none."""
        try:
            state = remote.state()
        except DashboardUnreachable as error:
            return str(error)
        if not isinstance(state, dict) or state.get("version") != VERSION:
            return f"{remote.name}: its page is of another version of streamactors, whose states this one cannot read; install the same version"
        return state
