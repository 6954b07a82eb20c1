"""What happened in a run, line by line: a lane for each instance, and a sentence.

Owner: the story. Runs of equal events of one instance are one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from streamactors.simulation.world.events import Event

WIDTH: Final = 100
_RUNS, _DOWN, _PAUSED, _HERE, _CRASH = "│", " ", "┊", "●", "✗"
_SHARED: Final[Mapping[str, Sequence[str]]] = {
    "effect": ("store", "call", "outcome"), "produced": ("topic",), "commit": ("group", "topic"),
}  # fmt: skip
"""Events of these kinds share a line if these facts are equal."""
_HIDDEN: Final = frozenset({"check", "stop", "commit refused"})


class Row(NamedTuple):
    """One line: virtual µs, the instance ("" outside), what happened, and the kind of the event."""

    at_us: int
    instance: str
    text: str
    kind: str


def rows_of(events: Sequence[Event]) -> list[Row]:
    """Return the lines of the events in their order, equal ones folded."""
    rows: list[Row] = []
    folded: list[Event] = []
    for event in events:
        if event.kind in _HIDDEN:
            continue
        if folded and not _alike(folded[-1], event):
            rows.append(_row(folded))
            folded = []
        folded.append(event)
    if folded:
        rows.append(_row(folded))
    return rows


def text_of(events: Sequence[Event], marked_us: Sequence[int] = ()) -> list[str]:
    """Return the timeline as lines of at most WIDTH characters. `marked_us`: the moments that matter, shown by an arrow."""
    rows = rows_of(events)
    names = sorted({str(event.facts["of"]) for event in events if event.kind == "start"})
    lanes = dict.fromkeys(names, _DOWN)
    lines = [f"{'':12}{' '.join(name[:1] for name in names)}  instances"] if names else []
    lines += [line for row in rows for line in _lines(row, lanes, row.at_us in marked_us)]
    return lines


def _lines(row: Row, lanes: dict[str, str], marked: bool) -> Iterator[str]:
    if row.instance in lanes and row.kind in ("start", "resume"):
        lanes[row.instance] = _RUNS
    marks = dict(lanes)
    if row.instance in lanes:
        marks[row.instance] = _CRASH if row.kind == "crash" else _HERE
        if row.kind in ("crash", "stopped"):
            lanes[row.instance] = _DOWN
        elif row.kind == "pause":
            lanes[row.instance] = _PAUSED
    arrow = "→" if marked else " "
    begin = f"{arrow}{row.at_us / 1e6:10.3f} {' '.join(marks.values())}  "
    room = max(WIDTH - len(begin), 30)
    text = row.text
    yield (begin + (text if len(text) <= room else text[: room - 1] + "…")).rstrip()


def _alike(one: Event, other: Event) -> bool:
    """Whether two events may share a line."""
    if one.kind != other.kind or one.instance != other.instance:
        return False
    same = _SHARED.get(one.kind)
    return same is not None and all(one.facts[name] == other.facts[name] for name in same)


def _row(events: list[Event]) -> Row:
    first = events[0]
    instance = first.instance or str(first.facts.get("of", ""))
    return Row(first.at_us, instance, _text(events), first.kind)


def _text(events: list[Event]) -> str:
    facts: dict[str, Any] = dict(events[0].facts)
    match events[0].kind:
        case "produced":
            count = sum(int(str(each.facts["last"])) - int(str(each.facts["first"])) + 1 for each in events)
            return f"{count} {'record' if count == 1 else 'records'} to {facts['topic']}: {_list(map(_span, events))}"
        case "effect":
            keys = _list(_effect(each) for each in events)
            outcome = {"failed before": " failed", "failed after": " was done, and its answer failed"}.get(
                facts["outcome"], ""
            )
            return f"{facts['store']}.{facts['call']}{outcome}: {keys}"
        case "commit":
            places = _list(f"{each.facts['topic']}-{each.facts['partition']}@{each.facts['offset']}" for each in events)
            return f"group {facts['group']} commits {places}"
        case "assigned" | "revoked" | "lost":
            verb = {"assigned": "gets", "revoked": "gives back", "lost": "has lost"}[events[0].kind]
            return f"{verb} {_list(facts['partitions']) or 'no partition'}"
        case "strike":
            return f"fault: {facts['text']}"
        case "stopped":
            return (
                f"instance {facts['of']} stopped with {facts['error']}"
                if facts["error"]
                else f"instance {facts['of']} has ended"
            )
        case "transaction":
            return f"transaction of {facts['transactional_id']} {facts['state']}"
        case "start" | "crash" | "pause" | "resume":
            verb = {"start": "starts", "crash": "is killed", "pause": "freezes", "resume": "continues"}[events[0].kind]
            return f"instance {facts['of']} {verb}"
        case kind:
            return f"{kind} " + " ".join(f"{name}={value!r}" for name, value in facts.items())


def _span(event: Event) -> str:
    first, last = event.facts["first"], event.facts["last"]
    return f"{event.facts['partition']}@{first}" + (f"–{last}" if first != last else "")


def _effect(event: Event) -> str:
    record = event.facts["record"]
    place = f" ({record[0]}-{record[1]}@{record[2]})" if isinstance(record, tuple) else ""
    return f"{event.facts['key']!r}{place}"


def _list(parts: Any) -> str:
    found = list(parts)
    shown = ", ".join(found[:4])
    return f"{shown}, … {found[-1]}" if len(found) > 5 else ", ".join(found)
