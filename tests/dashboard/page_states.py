"""States for tests of the page: a slow stage, and one at the sizes that must stay usable, with names that try to be markup."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from streamactors.dashboard import model

State = dict[str, Any]
HOSTILE = (
    '<img src=x onerror="window.hacked=1">',
    '"><script>window.hacked=1</script>',
    "\u202e\u2028drawkcab",
    "a" * 3_000,
    "${x}{{y}}",
    "nul \x00 escape \x1b[31m delete \x7f",
    "javascript:window.hacked=1",
    "]]><!--</svg>&amp;&lt;",
    "constructor",
)
START_MS = 1_796_000_000_000


def empty(at_ms: int = START_MS) -> State:
    process = {
        "name": "flights",
        "pid": 1,
        "host": "h",
        "started_ms": START_MS,
        "python": "3.11",
        "streamactors": "0.2.0",
        "cpu_share": 0.4,
        "rss_bytes": 10**8,
    }
    parts = (
        "processes",
        "graphs",
        "consumers",
        "windows",
        "stores",
        "latency",
        "spark",
        "dead_letters",
        "stalls",
        "banners",
    )
    return {"version": 1, "at_ms": at_ms, "process": process, "broker": None, **{part: [] for part in parts}}


def stage(id: int, name: str, works: float, demand: float, elements: float, **more: Any) -> State:
    shares = {"works": works, "waits_for_demand": demand, "waits_for_elements": elements}
    start = {
        "id": id,
        "name": name,
        "kind": "map",
        "island": 0,
        "group": None,
        "count": 1,
        "state": "open",
        "detail": "",
    }
    counts = {"elements_per_s": 1234.5, "elements": 98_765, "failures": 0, "culprit": False, "process": None}
    return {**start, **shares, **counts, **more}


def edge(source: int, target: int, **more: Any) -> State:
    start = {
        "source": source,
        "target": target,
        "per_s": 1234.5,
        "elements": 9,
        "ready": 12,
        "asked": 64,
        "marks": 0,
        "state": "open",
    }
    return {**start, **more}


def slow(at_ms: int = START_MS, second: int = 0) -> State:
    """Return a state whose stage decode holds three stages back, and one of each other part."""
    works = 0.96 - 0.01 * (second % 3)
    stages = [
        stage(0, "kafka flights", 0.05, 0.94, 0.01, kind="source"),
        stage(1, "parse", 0.11, 0.88, 0.01),
        stage(2, "group_by carrier", 0.08, 0.9, 0.02, count=100, group="substreams of group_by"),
        stage(3, "decode", works, 0.01, 0.03, culprit=True, island=1, failures=2),
        stage(4, "window", 0.07, 0.0, 0.9, island=1),
        stage(5, "late rows", 0.01, 0.0, 0.97, island=1, kind="sink"),
        stage(6, "spark", 0.12, 0.0, 0.85, island=2, kind="sink", process="executor 1"),
    ]
    links = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (4, 6)]
    edges = [edge(a, b, state="boundary" if a in (2, 4) and b != 5 else "open") for a, b in links]
    cause = {
        "stage": 3,
        "cause": "works",
        "share": works,
        "sentence": f"decode works {works:.0%} of the time; 3 stages upstream wait for its demand",
    }
    graph = {
        "id": "0",
        "name": "flights",
        "running_ms": 1000 * second,
        "stages": stages,
        "edges": edges,
        "causes": [cause],
    }
    state = empty(at_ms)
    state["graphs"] = [graph]
    state["banners"] = [banner("works", cause["sentence"], stage=3)]
    state["consumers"] = [consumer(12, second)]
    state["windows"] = [
        {"graph": "flights", "task": "0_0", "stream_time_ms": at_ms - 4000, "open_windows": 3, "next_close_ms": at_ms + 1000, "suppressed": 10,
         "late": 2, "late_samples": [{"key": HOSTILE[0], "timestamp_ms": at_ms - 90_000, "behind_ms": 61_000}], "dropped": 1, "rows": 9}
    ]  # fmt: skip
    state["stores"] = [
        {"graph": "flights", "name": "counts", "kind": "disk", "entries": 1200, "bytes": 98_000, "cache_hits": 0.93, "restored": 50,
         "restore_total": 200, "restoring": True}
    ]  # fmt: skip
    hops = ("created → polled", "consumer's buffer", "decode", "sink", "commit")
    state["latency"] = [
        {"graph": "flights", "hop": hop, "n": 1000, "place": n, "whole": False, "p50_ms": 1.0 + n, "p99_ms": 3.0 + 5 * n, "max_ms": 9.0 + 9 * n,
         "mean_ms": 1.0, "working_ms": 0.1, "waiting_ms": 0.9, "clock_skew": n == 0} for n, hop in enumerate(hops)
    ] + [
        {"graph": "flights", "hop": end, "n": 1000, "place": n, "whole": True, "p50_ms": 12.0, "p99_ms": 30.0, "max_ms": 90.0, "mean_ms": 15.0,
         "working_ms": None, "waiting_ms": None, "clock_skew": n == 0} for n, end in enumerate(("sink", "committed"))
    ]  # fmt: skip
    state["broker"] = broker(3)
    state["spark"] = [
        {
            "query": "counts",
            "batch": 3,
            "rows": 100,
            "duration_ms": 800,
            "demand": 50_000,
            "executors": [{"id": "1", "state": "running"}],
        }
    ]
    state["dead_letters"] = [
        {"topic": "flights-dead", "count": 3, "samples": [{"reason": f"ValueError: {HOSTILE[1]}", "stage": "decode"}]}
    ]
    return _of_one_process(state)


def banner(kind: str, sentence: str, holds: bool = True, graph: str | None = "0", stage: int | None = None) -> State:
    return {"kind": kind, "holds": holds, "sentence": sentence, "graph": graph, "stage": stage, "process": None}


def consumer(partitions: int, second: int = 0) -> State:
    rows = [
        {"topic": HOSTILE[n % 2] if n < 2 else "flights", "partition": n, "position": 100 + n + second, "done": 90 + n, "committed": 80 + n,
         "end": 1000 + n + 10 * second, "begin": 0, "lag": 900 + 9 * second, "lag_seconds": 1.5 * (n % 17), "buffered_records": n,
         "buffered_bytes": 300 * n, "paused": n % 3 == 0, "paused_by": "back-pressure" if n % 3 == 0 else None, "in_flight": 2,
         "oldest_mark": {"position": 90 + n, "age_ms": 1200, "sink": "spark"}, "per_s": 100.0 + n} for n in range(partitions)
    ]  # fmt: skip
    counts = {"demand": 100, "delivered": 1, "pauses": 2, "resumes": 2}
    rebalances = [{"at_ms": START_MS, "kind": "assigned", "partitions": ["flights-0", "flights-1"]}]
    transactions = {"phase": "open", "since_ms": START_MS, "committed": 3, "aborted": 0}
    names = {"graph": "flights", "group": "g", "client": "c"}
    return {**names, **counts, "partitions": rows, "rebalances": rebalances, "transactions": transactions}


def broker(topics: int) -> State:
    names = [HOSTILE[n] if n < len(HOSTILE) else f"topic-{n}" for n in range(topics)]
    return {
        "nodes": [
            {
                "id": 1,
                "role": "broker,controller",
                "leader_of": 3,
                "disk_bytes": 10**9,
                "request_ms_p99": 1.0,
                "purgatory": 0,
            }
        ],
        "topics": [
            {"name": name, "partitions": 3, "under_replicated": 0, "bytes": 10**6, "messages_per_s": 1.0}
            for name in names
        ],
        "partitions": [
            {"topic": name, "partition": 0, "leader": 1, "isr": [1], "replicas": [1], "start": 0, "end": 10}
            for name in names
        ],
        "groups": [{"id": "g", "kind": "classic", "state": "Stable", "members": 1, "lag": 0}],
        "transactions": [{"id": "x", "state": "Ongoing", "age_ms": 1}],
        "quotas": [],
    }


def letters(topic: str) -> list[State]:
    """Return what a topic of dead letters has, newest first."""
    return [
        {"letter": f"0@{n}", "stored_ms": START_MS + n, "source": f"flights-1@{n}", "timestamp_ms": START_MS, "stage": HOSTILE[n % 2],
         "reason": f"ValueError: {HOSTILE[1 - n % 2]}", "attempts": 1, "due_ms": None, "key": None if n else HOSTILE[0], "value": HOSTILE[n % 5],
         "headers": [{"name": HOSTILE[0], "value": HOSTILE[1]}]} for n in (2, 1, 0)
    ]  # fmt: skip


def large(at_ms: int = START_MS, second: int = 0) -> State:
    """Return 200 stages, one of them for 100 substreams, 1,000 partitions and 700 topics."""
    state = slow(at_ms, second)
    stages = [
        stage(n, HOSTILE[n] if n < len(HOSTILE) else f"stage {n}", abs(math.sin(n + second)) * 0.6, 0.2, 0.1, island=n // 20,
              count=100 if n == 7 else 1, elements_per_s=1000.0 + second) for n in range(200)
    ]  # fmt: skip
    stages[150].update(culprit=True, works=0.97, waits_for_demand=0.0)
    edges = [edge(n // 2 if n % 3 else n - 1, n, ready=second) for n in range(1, 200)]
    cause = {"stage": 150, "cause": "works", "share": 0.97, "sentence": "stage 150 works 97 % of the time"}
    state["graphs"] = [
        {"id": "0", "name": HOSTILE[0], "running_ms": 1, "stages": stages, "edges": edges, "causes": [cause]}
    ]
    state["banners"] = [banner("works", cause["sentence"], stage=150), banner("partition", f"{HOSTILE[1]}-7 is late")]
    state["consumers"] = [consumer(1_000, second)]
    state["broker"] = broker(700)
    return _of_one_process(state)


def _of_one_process(state: State) -> State:
    """Return a state with the defaults of the model where this file gives nothing."""
    return _filled(model.State, state)


_hints = cache(get_type_hints)


def _filled(kind: Any, row: Any) -> Any:
    hints = _hints(kind)
    for each in fields(kind):
        if each.name not in row and each.default is not MISSING:
            row[each.name] = list(each.default) if isinstance(each.default, tuple) else each.default
        for inner in (hints[each.name], *get_args(hints[each.name])):
            if is_dataclass(inner) and row.get(each.name) is not None:
                found = row[each.name]
                for part in found if isinstance(found, list) else [found]:
                    _filled(inner, part)
    return row
