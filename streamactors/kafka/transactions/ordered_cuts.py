"""Whether all parts of a run's transaction can stop at one position, where windows read several topics in the order of timestamps.

Such windows hold rows of one topic until rows of another have come, so the positions where they can stop depend on their order. A
transactional sink that takes the rows as they arrive stops elsewhere, and cannot be sent on to such a position without breaking the order.
Another computation of the same order stops at the same positions, unless the stream is stopped while the two are at different rows.

Owner: the run's transaction, when it starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from streamactors.engine.marks.cut_state import CutPart
from streamactors.engine.marks.marks import PositionMark
from streamactors.errors import BuildError
from streamactors.kafka.errors import ProducerFailed
from streamactors.windows.state.changelogs import StateKeeper


def refuse_other_orders(sinks: Collection[CutPart], behind: Mapping[StateKeeper, Collection[object]]) -> None:
    """`behind`: the keepers of the run with every stage downstream of them. Raises BuildError naming the way out."""
    all_behind = set().union(*behind.values())
    first = [keeper for keeper in behind if keeper.stage not in all_behind]  # the others stop where these do
    for keeper in first:
        if not keeper.orders_topics:
            continue
        name, wait = keeper.stage.name, keeper.max_task_idle_ms
        if any(sink not in all_behind and sink.part_state.carried & keeper.carried for sink in sinks):
            raise BuildError(
                f"{name} take the rows of several topics in order of time, and a transactional sink of the same source "
                "takes them as they come: they cannot be committed at one position. Put the sink downstream of the windows, "
                "give it a graph and a group of its own, or give up the order: group_by_key(max_task_idle=None)"
            )
        for other in first:
            if other.carried & keeper.carried and other.max_task_idle_ms != wait:
                raise BuildError(
                    f"{name} with max_task_idle of {_told(wait)} beside {_told(other.max_task_idle_ms)} on one source of several "
                    "topics: they take its rows in different orders and cannot be committed at one position; give both the same"
                )


def refuse_to_lose(ended: Collection[StateKeeper], target: PositionMark) -> None:
    """Raise ProducerFailed if one of the `ended` keepers was stopped while it held rows before `target`.

    A silent topic may have released rows in one computation that another one still holds; a commit there would lose them."""
    for keeper in ended:
        if keeper.dropped_before(target):
            raise ProducerFailed(
                f"{keeper.stage.name}: the stream was stopped while its computations in order of time stood at different positions; "
                "what they did since the last commit is aborted, and the next run does it again"
            )


def _told(wait_ms: Any) -> str:
    return "None" if wait_ms is None else f"{wait_ms} ms"
