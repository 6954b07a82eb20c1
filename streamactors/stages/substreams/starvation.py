"""Substreams that starve: those that are read wait for elements, and the next element waits for a substream. Only a flow that ends by itself
could let the stream move."""

from __future__ import annotations

from typing import Any, Final

from streamactors.engine.island.connection import Connection
from streamactors.stages.substreams.substream import Substream

STARVED_MS: Final = 5_000.0
"""How long substreams may starve before the stream fails."""


def waits_for_elements(sub: Substream) -> bool:
    """True if the flow of a substream has demand, gets nothing, and no timer of its own may end it."""
    into = sub.into
    if into is None or sub.ending or sub.waiting or not into.asked:
        return False
    return not _may_end_by_itself(into)


def _may_end_by_itself(into: Connection) -> bool:
    """True if a stage of the flow has set a timer, or if a part of the flow runs elsewhere, so that it cannot be known."""
    home = into.producer
    found: set[Any] = set()
    ahead: list[Any] = [into.consumer]
    while ahead:
        logic = ahead.pop()
        if logic is home or logic in found:
            continue
        found.add(logic)
        if logic._timers or not logic.outlets:
            return True
        ahead += [out.consumer for out in logic.outlets]
    return False
