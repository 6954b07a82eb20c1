"""How `replay` shows steps, failures and differences: as lines for a reader, or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from streamactors.cli.colours import has_colours, in_colour
from streamactors.cli.texts import as_text, as_time, json_field
from streamactors.simulation.capture.capsule import CapturedRecord
from streamactors.simulation.capture.comparing import Difference
from streamactors.simulation.capture.elements import Window, bytes_text, span_text
from streamactors.simulation.capture.looking import Emission, Failure
from streamactors.simulation.capture.replaying import Step
from streamactors.simulation.capture.sent import SentRecord
from streamactors.text_log import printable

WIDEST: Final = 28
"""The most characters of a stage's name that the column is made for."""
MOST_SENT: Final = 12
"""Records of one step that are shown; more are counted."""


class Lines:
    """Steps as lines. `stages`: names whose longest makes the width of the column."""

    def __init__(self, stages: Sequence[str], source: str) -> None:
        self._on = has_colours(sys.stdout)
        self._width = min(WIDEST, max((len(name) for name in stages), default=8))
        self._source = source
        self._date = ""

    def show(self, step: Step) -> None:
        """Print a step."""
        lines = self._head(step)
        lines += self._emitted(step)
        if step.left_out:
            lines.append(f"    … and {step.left_out:,} more")
        lines += self._sent(step.sent)
        lines += [line for failure in step.failures for line in self._failed(failure)]
        if step.record is None and lines:
            lines.insert(0, self._colour(f"      {self._time(step.at_ms)}  later", "dim"))
        click.echo("\n".join(map(self._safe, lines)))

    def _colour(self, text: str, colour: str) -> str:
        return in_colour(text, colour, on=self._on)

    @staticmethod
    def _safe(line: str) -> str:
        """Escape control characters of the data, but those of this module's colours."""
        return "\x1b".join(map(printable, line.split("\x1b")))

    def _time(self, ms: int) -> str:
        """Return the time of day, with the date if it differs from that of the last time."""
        return (as_time(ms) or "").partition(" ")[2]

    def _new_date(self, ms: int) -> list[str]:
        date = (as_time(ms) or "").partition(" ")[0]
        if date == self._date or not date:
            return []
        self._date = date
        return [self._colour(date, "dim")]

    def _head(self, step: Step) -> list[str]:
        record = step.record
        if record is None:
            return []
        pair = f"{bytes_text(record.key)} = {'tombstone' if record.value is None else bytes_text(record.value)}"
        headers = " ".join(f"{name}={as_text(value)}" for name, value in record.headers)
        head = f"{step.number:>4}  {self._time(step.at_ms)}  {self._colour(record.place, 'cyan')}"
        rest = f"{self._colour(_shortened(pair), 'bold')}{self._colour(f'  {headers}', 'dim') if headers else ''}"
        return [*self._new_date(step.at_ms), f"{head}  {rest}"]

    def _emitted(self, step: Step) -> list[str]:
        lines, before = [], ""
        for each in step.emitted:
            if each.stage == self._source and step.record is not None:
                before = each.text
                continue
            text = self._colour("the same", "dim") if each.text == before else each.text
            before = each.text
            lines.append(f"        {self._stage(each.stage)}  {text}")
        return lines

    def _stage(self, name: str) -> str:
        return name.ljust(self._width)

    def _sent(self, sent: Sequence[SentRecord]) -> list[str]:
        lines = [
            f"      {self._colour('→', 'green')} {self._colour(each.place, 'green')}  {each.key_text} = {each.value_text}"
            for each in sent[:MOST_SENT]
        ]
        if len(sent) > MOST_SENT:
            lines.append(f"      → … and {len(sent) - MOST_SENT:,} more")
        return lines

    def _failed(self, failure: Failure) -> list[str]:
        where = f"  ({failure.where})" if failure.where else ""
        what = f"{failure.stage or 'the graph'} {'dropped an element' if failure.dropped else 'failed'}"
        return [f"      {self._colour('✗', 'red')} {self._colour(what, 'red')}: {failure.error}{where}"]


def _shortened(text: str, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def step_json(step: Step) -> str:
    """Return a step as a JSON object on one line."""
    return _json(
        {
            "step": step.number,
            "at_ms": step.at_ms,
            "record": None if step.record is None else _record(step.record),
            "emitted": [_emission(each) for each in step.emitted],
            "left_out": step.left_out,
            "sent": [_record(each) for each in step.sent],
            "failures": [each._asdict() for each in step.failures],
        }
    )


def difference_json(each: Difference) -> str:
    """Return a difference as a JSON object on one line."""
    told = each._asdict()
    return _json({**told, "change": each.change.value, "window": _window(each.window)})


def _json(found: Any) -> str:
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _record(record: CapturedRecord | SentRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **json_field("key", record.key),
        **json_field("value", record.value),
        **(
            {}
            if isinstance(record, SentRecord)
            else {"headers": [{"name": n, **json_field("value", v)} for n, v in record.headers]}
        ),
    }


def _emission(each: Emission) -> dict[str, Any]:
    return {"stage": each.stage, "element": each.text, "window": _window(each.window)}


def _window(window: Window | None) -> dict[str, Any] | None:
    return None if window is None else window._asdict()


# ── differences ───────────────────────────────────────────────────────────────────────────────────────────────────────


def difference_rows(found: Sequence[Difference]) -> list[tuple[str, ...]]:
    """Return the rows of a table of differences."""
    return [
        (
            each.change.value,
            each.place,
            each.key,
            "" if each.window is None else f"[{span_text(each.window.start_ms, each.window.end_ms)})",
            _values(each.before),
            _values(each.after),
        )
        for each in found
    ]


def _values(values: Sequence[str], most: int = 4) -> str:
    if len(values) <= most:
        return ", ".join(_shortened(value, 60) for value in values)
    return f"… {len(values) - most} more, {', '.join(_shortened(value, 60) for value in values[-most:])}"
