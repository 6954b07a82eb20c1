"""Whether the transactional parts of a run can meet at one position where windows read several topics in order of time.

Owner: the run's transaction, when it starts. Such windows hold rows of one topic until rows of another have come: where they stand
is a point on the way of the oldest head. A sink that takes the rows as they come stops elsewhere, and meeting it there would break
the order; another computation of the same order goes the same way, unless a stop finds
them apart. Rules: marks K-14 to K-16, windows T-4."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from streamactors.engine.marks import PositionMark
from streamactors.errors import BuildError
from streamactors.kafka.errors import ProducerFailed
from streamactors.windows.keeper import Keeper

if TYPE_CHECKING:
    from streamactors.kafka.transaction import Participant


def refuse_other_orders(participants: Collection[Participant], behind: Mapping[Keeper, Collection[object]]) -> None:
    """`behind`: the keepers of the run with every stage behind them. Raises BuildError naming the way out."""
    for keeper in behind:
        if not keeper.orders_topics:
            continue
        name, wait = keeper.stage.name, keeper.max_task_idle_ms
        for other in participants:
            if other is keeper or other in behind[keeper] or not other.carried & keeper.carried:
                continue
            if not isinstance(other, Keeper):
                if any(other in stages for stages in behind.values()):
                    continue  # it stops where those windows do
                raise BuildError(
                    f"{name} take the rows of several topics in order of time, and a transactional sink of the same source "
                    "takes them as they come: they cannot be committed at one position. Put the sink behind the windows, "
                    "give it a graph and a group of its own, or give up the order: group_by_key(max_task_idle=None)"
                )
            if not other.follows and other.max_task_idle_ms != wait:
                raise BuildError(
                    f"{name} with max_task_idle of {_told(wait)} beside {_told(other.max_task_idle_ms)} on one source of several "
                    "topics: they take its rows in different orders and cannot be committed at one position; give both the same"
                )


def refuse_to_lose(ended: Collection[Participant], target: PositionMark) -> None:
    """`ended`: those whose stream has ended. Raises ProducerFailed when one of them was stopped while it held rows before `target`: what a
    silent topic let go in one computation may wait in another, and committed there its rows would be lost."""
    for each in ended:
        if isinstance(each, Keeper) and each.dropped_before(target):
            raise ProducerFailed(
                f"{each.stage.name}: the stream was stopped while its computations in order of time stood at different positions; "
                "what they did since the last commit is aborted, and the next run does it again"
            )


def _told(wait_ms: Any) -> str:
    return "None" if wait_ms is None else f"{wait_ms} ms"
