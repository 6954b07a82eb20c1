"""Has a coordinator's partition read on a helper thread, and tells it what was found.

Owner: the group or the transaction component, on the data plane's thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from streamactors.actors.cell import Cell
from streamactors.broker.helpers import Outcome
from streamactors.broker.log.partition_log import PartitionLog
from streamactors.broker.records.batch import RecordBatch

if TYPE_CHECKING:
    from streamactors.broker.node import Node

_log = logging.getLogger("streamactors.broker.coordinator")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The partition cannot be read."""

    error: BaseException


def load(node: Node, log: PartitionLog, cell: Cell, fold: Callable[[Iterable[RecordBatch]], T]) -> None:
    """Tell `cell` what `fold` makes of the whole log, or LoadFailed. An empty log is folded at once."""
    start, end = log.log_start_offset, log.end_offset
    if start == end:
        cell.tell(fold(()))
        return
    began_ms = node.clock.now_ms()

    def loaded(outcome: Outcome[T]) -> None:
        if outcome.error is not None:
            cell.tell(LoadFailed(outcome.error))
            return
        _log.info("%s: offsets %d to %d read in %.0f ms", cell.name, start, end, node.clock.now_ms() - began_ms)
        cell.tell(outcome.value)

    node.helpers.run(lambda: fold(log.replay(start, end)), loaded)
