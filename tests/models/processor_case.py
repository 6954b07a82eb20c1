"""Random scripts for one processor with stores of each kind; the Java program Processors has the same words.

A row's value says what the processor does with its stores and schedules, and the answer is forwarded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from streamactors.testing import TopologyDriver
from streamactors.windows import (
    KeyValueStore,
    Processor,
    ProcessorContext,
    Record,
    SessionStore,
    VersionedStore,
    WindowStore,
)
from streamactors.windows.processors.versioned import REFUSED
from tests.models.topology_case import Op, TopologyCase, TopologyOutcome

_RETENTION_MS = 30
_STORES = (
    KeyValueStore("kv"),
    WindowStore("window", retention=_RETENTION_MS),
    WindowStore("doubles", retention=_RETENTION_MS, retain_duplicates=True),
    SessionStore("session", retention=_RETENTION_MS),
    VersionedStore("versions", history=_RETENTION_MS),
)


class Script(Processor):
    """Does what the rows say. `ops`: the schedules that are set in `init`."""

    def __init__(self, ops: list[Op]) -> None:
        self._ops = ops

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._scheduled: list[Any] = []
        for _, clock, every, limit in self._ops:
            self._schedule(clock, every, limit)

    def _schedule(self, clock: Any, every: int, limit: int) -> None:
        name = f"p{len(self._scheduled)}"
        context, at, calls = self._context, len(self._scheduled), 0

        def punctuate(now: int) -> None:
            nonlocal calls
            calls += 1
            kv = context.store("kv")
            kv.put(name, f"n{calls}")
            context.forward(Record(name, f"{name} {calls} {context.stream_time} {_text(kv.get('a'))}", now))
            if calls == limit:
                self._scheduled[at].cancel()

        self._scheduled.append(context.schedule(f"{every}ms", punctuate, clock=clock))

    def process(self, record: Record) -> None:
        answer = "none" if record.value is None else _text(self._act(*record.value.split(" ")))
        result = record.replace(value=f"{answer} {self._context.stream_time} {self._context.wall_clock}")
        if record.key == "x":
            self._context.forward(result, to="left")
        elif record.key == "y":
            self._context.forward(result.replace(key=None if answer == "null" else answer, timestamp=7), to="right")
        else:
            self._context.forward(result)

    def _act(self, verb: str, *words: str) -> Any:
        if verb == "schedule":
            self._schedule(words[0], int(words[1]), int(words[2]))
            return "ok"
        if verb == "cancel":
            for each in self._scheduled[int(words[0]) : int(words[0]) + 1]:
                each.cancel()
            return "ok"
        kind = {"w": "window", "s": "session", "v": "versions"}.get(verb[0], "kv")
        if kind == "window":
            kind, *words = words  # type: ignore[assignment]
        return getattr(self, f"_{verb}")(self._context.store(kind), *words)

    def _put(self, store: Any, key: str, value: str) -> Any:
        store.put(key, _word(value))
        return "ok"

    def _get(self, store: Any, key: str) -> Any:
        return store.get(key)

    def _absent(self, store: Any, key: str, value: str) -> Any:
        return store.put_if_absent(key, _word(value))

    def _delete(self, store: Any, key: str) -> Any:
        return store.delete(key)

    def _range(self, store: Any, first: str, last: str) -> Any:
        return _pairs(store.range(_word(first), _word(last)))

    def _backwards(self, store: Any, first: str, last: str) -> Any:
        return _pairs(store.range(_word(first), _word(last), reverse=True))

    def _prefix(self, store: Any, prefix: str) -> Any:
        return _pairs(store.prefix(prefix))

    def _all(self, store: Any) -> Any:
        return _pairs(store.items())

    def _wput(self, store: Any, key: str, value: str, time: str) -> Any:
        store.put(key, _word(value), int(time))
        return "ok"

    def _wget(self, store: Any, key: str, time: str) -> Any:
        return store.get(key, int(time))

    def _wrange(self, store: Any, key: str, first: str, last: str) -> Any:
        return _pairs(store.range(key, int(first), int(last)))

    def _wback(self, store: Any, key: str, first: str, last: str) -> Any:
        return _pairs(store.range(key, int(first), int(last), reverse=True))

    def _sput(self, store: Any, key: str, start: str, end: str, value: str) -> Any:
        store.put(key, int(start), int(end), _word(value))
        return "ok"

    def _sremove(self, store: Any, key: str, start: str, end: str) -> Any:
        store.remove(key, int(start), int(end))
        return "ok"

    def _sget(self, store: Any, key: str, start: str, end: str) -> Any:
        return store.get(key, int(start), int(end))

    def _sfind(self, store: Any, key: str, first_end: str, last_start: str) -> Any:
        found = store.find(key, int(first_end), int(last_start))
        return _pairs((f"{start}-{end}", value) for start, end, value in found)

    def _vput(self, store: Any, key: str, value: str, time: str) -> Any:
        end = store.put(key, _word(value), int(time))
        return "refused" if end is REFUSED else end

    def _vget(self, store: Any, key: str) -> Any:
        return _version(store.get(key))

    def _vas(self, store: Any, key: str, as_of: str) -> Any:
        return _version(store.get(key, int(as_of)))

    def _vdelete(self, store: Any, key: str, time: str) -> Any:
        return _version(store.delete(key, int(time)))


def _word(text: str) -> str | None:
    return None if text == "-" else text


def _text(answer: Any) -> str:
    return "null" if answer is None else str(answer)


def _pairs(found: Iterable[tuple[Any, Any]]) -> str:
    return ",".join(f"{key}={value}" for key, value in found)


def _version(found: Any) -> str | None:
    return (
        None if found is None else f"{found.value}@{found.timestamp}-{'' if found.valid_to is None else found.valid_to}"
    )


def run(case: TopologyCase) -> TopologyOutcome:
    def build(topics: Any) -> None:
        others = topics.stream("b").filter(lambda record: (record.value or "").startswith("put"))
        given = topics.stream("a").merge(others).process(lambda: Script(case.ops), stores=_STORES)
        given.map_values(lambda value: f"L:{value}", name="left").to("output")
        given.map_values(lambda value: f"R:{value}", name="right").to("output")

    driver = TopologyDriver(build, semantics="kafka")
    outcome = TopologyOutcome()
    for row in case.rows:
        outputs = driver.advance_wall_clock(f"{row[3]}ms") if row[0] == "clock" else driver.pipe(*row)
        outcome.given.append([(each.record.key, each.record.value, each.record.timestamp) for each in outputs])
    outcome.dropped = driver.dropped
    return outcome


# ── random ones ───────────────────────────────────────────────────────────────────────────────────────────────────────

_KEYS = st.sampled_from(["a", "ab", "b"])
_OPEN = st.sampled_from(["-", "a", "ab", "b", "c"])
_VALUES = st.sampled_from(["-", "1", "2", "3"])
# Few times, so that entries meet: some are equal, some are the retention apart, some a millisecond more or less.
_TIMES = st.sampled_from(["0", "5", "10", "29", "30", "31", "40", "41", "60", "70"])
_CLOCKS = st.sampled_from(["stream", "wall"])
_WINDOWS = st.sampled_from(["window", "doubles"])
_EVERY, _LIMIT = st.integers(1, 20), st.integers(1, 4)
_SPANS = st.sampled_from(["0 0", "0 10", "5 10", "10 10", "0 40", "10 40", "30 40", "31 41", "40 60", "60 70"])


def _act(verb: str, *words: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return st.tuples(st.just(verb), *words).map(lambda each: " ".join(map(str, each)))


_KEY_VALUE = st.one_of(
    _act("put", _KEYS, _VALUES),
    _act("get", _KEYS),
    _act("absent", _KEYS, _VALUES),
    _act("delete", _KEYS),
    _act("range", _OPEN, _OPEN),
    _act("backwards", _OPEN, _OPEN),
    _act("prefix", _KEYS),
    _act("all"),
)
_WINDOW = st.one_of(
    _act("wput", _WINDOWS, _KEYS, _VALUES, _TIMES),
    _act("wput", _WINDOWS, _KEYS, _VALUES, _TIMES),
    _act("wget", st.just("window"), _KEYS, _TIMES),
    _act("wrange", _WINDOWS, _KEYS, _TIMES, _TIMES),
    _act("wback", _WINDOWS, _KEYS, _TIMES, _TIMES),
)
_SESSION = st.one_of(
    _act("sput", _KEYS, _SPANS, _VALUES),
    _act("sput", _KEYS, _SPANS, _VALUES),
    _act("sremove", _KEYS, _SPANS),
    _act("sget", _KEYS, _SPANS),
    _act("sfind", _KEYS, _TIMES, _TIMES),
)
_VERSIONED = st.one_of(
    _act("vput", _KEYS, _VALUES, _TIMES),
    _act("vput", _KEYS, _VALUES, _TIMES),
    _act("vget", _KEYS),
    _act("vas", _KEYS, _TIMES),
    _act("vdelete", _KEYS, _TIMES),
)
_SCHEDULES = st.one_of(
    _act("schedule", _CLOCKS, _EVERY, _LIMIT), _act("cancel", st.integers(0, 4)), _act("put", _KEYS, _VALUES)
)
_ALL = (_KEY_VALUE, _WINDOW, _SESSION, _VERSIONED, _SCHEDULES)


def _rows(acts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    row = st.tuples(
        st.sampled_from(["a", "a", "a", "b"]),
        st.sampled_from(["k", "x", "y", None]),
        st.one_of(acts, acts, acts, st.none()),
        st.integers(0, 100),
    )
    return st.one_of(row, row, row, st.tuples(st.just("clock"), st.none(), st.none(), st.integers(0, 40)))


def processor_cases(max_rows: int = 30) -> st.SearchStrategy[TopologyCase]:
    """Most cases use one kind of store only, so that its entries meet; the others use all."""
    schedules = st.lists(st.tuples(st.just("schedule"), _CLOCKS, _EVERY, _LIMIT), max_size=3)
    rows = [st.lists(_rows(acts), min_size=max_rows // 2, max_size=max_rows) for acts in _ALL]
    mixed = st.lists(_rows(st.one_of(*_ALL)), min_size=1, max_size=max_rows)
    return st.builds(TopologyCase, ops=schedules, rows=st.one_of(*rows, mixed, mixed))


# ── seeded ones, for vectors that are recorded ────────────────────────────────────────────────────────────────────────

_WORDS = {
    "key": ("a", "ab", "b"),
    "open": ("-", "a", "ab", "b", "c"),
    "value": ("-", "1", "2", "3"),
    "time": ("0", "5", "10", "29", "30", "31", "40", "41", "60", "70"),
    "span": ("0 0", "0 10", "5 10", "10 10", "0 40", "10 40", "30 40", "31 41", "40 60", "60 70"),
    "store": ("window", "doubles"),
    "single": ("window",),
    "clock": ("stream", "wall"),
    "every": ("1", "3", "10", "20"),
    "limit": ("1", "2", "4"),
    "which": ("0", "1", "2"),
}
_SCRIPTS = (
    "put key value|get key|absent key value|delete key|range open open|backwards open open|prefix key|all",
    "wput store key value time|wput store key value time|wget single key time|wrange store key time time|wback store key time time",
    "sput key span value|sput key span value|sremove key span|sget key span|sfind key time time",
    "vput key value time|vput key value time|vget key|vas key time|vdelete key time",
    "schedule clock every limit|cancel which|put key value|get key",
)


def random_script(dice: Any, count: int) -> TopologyCase:
    """A script for one kind of store, or for all kinds; `dice`: a random.Random."""
    kinds = dice.choice([*_SCRIPTS, "|".join(_SCRIPTS)]).split("|")
    ops = [
        ("schedule", dice.choice(_WORDS["clock"]), int(dice.choice(_WORDS["every"])), int(dice.choice(_WORDS["limit"])))
        for _ in range(dice.randrange(3))
    ]
    rows: list[Any] = []
    for _ in range(count):
        verb, *words = dice.choice(kinds).split(" ")
        act = " ".join([verb, *(dice.choice(_WORDS[word]) for word in words)])
        if dice.random() < 0.2:
            rows.append(("clock", None, None, dice.randrange(40)))
        else:
            value = None if dice.random() < 0.1 else act
            rows.append((dice.choice("aaab"), dice.choice(("k", "x", "y", None)), value, dice.randrange(100)))
    return TopologyCase(ops, rows)
