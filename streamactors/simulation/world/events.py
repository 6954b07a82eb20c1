"""What happened in a run, for whoever tells its story or checks it: an event has a kind and facts, and is a line of the trace, too.

Owner: the world's trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Event(NamedTuple):
    """`at_us`: virtual µs since the beginning. `instance`: whose task it was in, "" for none."""

    at_us: int
    instance: str
    kind: str
    facts: Mapping[str, object]
