"""A request that a coordinator refuses is answered once, with the error for each thing that was asked."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group import group_messages
from streamactors.broker.group.group_messages import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchedOffsets,
    FetchOffsets,
    ListGroups,
    NewOffset,
    ToGroup,
    WriteMarker,
)
from streamactors.broker.transaction import transaction_messages
from streamactors.broker.transaction.transaction_messages import (
    DescribeTransaction,
    ListTransactions,
    ProducerIdGiven,
    ToTransaction,
)

ERROR = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
OFFSET = NewOffset("a", 0, 5, -1, "")


class Event:
    """An event of a group or of a transactional id, whose refusal is the error and a word."""

    def __init__(self, reply_to: Any) -> None:
        self.reply_to = reply_to

    def refused(self, error: ErrorCode) -> object:
        return ("refused", error)


ANSWERS: dict[str, tuple[Any, tuple[object, ...]]] = {
    "ToGroup": (lambda reply: ToGroup("g", Event(reply)), (("refused", ERROR),)),  # type: ignore[arg-type]
    "CommitOffsets": (lambda reply: CommitOffsets(reply, "g", "m", None, 1, [OFFSET, OFFSET]), ([ERROR, ERROR],)),
    "FetchOffsets": (lambda reply: FetchOffsets(reply, "g", None, False), (FetchedOffsets(ERROR, ()),)),
    "DescribeGroups": (lambda reply: DescribeGroups(reply, ["g", "h"]), (ERROR, [None, None])),
    "ListGroups": (lambda reply: ListGroups(reply), (ERROR, ())),
    "DeleteGroups": (lambda reply: DeleteGroups(reply, ["g", "h"]), ([ERROR, ERROR],)),
    "DeleteOffsets": (lambda reply: DeleteOffsets(reply, "g", [("a", 0)]), (ERROR, ())),
    "WriteMarker": (lambda reply: WriteMarker(reply, 1, 2, 3, True), (ERROR,)),
    "ToTransaction": (lambda reply: ToTransaction("t", Event(reply)), (("refused", ERROR),)),  # type: ignore[arg-type]
    "DescribeTransaction": (lambda reply: DescribeTransaction(reply, "t"), (ERROR, None)),
    "ListTransactions": (lambda reply: ListTransactions(reply), (ERROR, ())),
    "ProducerIdGiven": (lambda reply: ProducerIdGiven("t", Event(reply), 1), (("refused", ERROR),)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_refused_request_is_answered_once_for_everything_that_was_asked(name: str) -> None:
    make, answer = ANSWERS[name]
    answers: list[tuple[object, ...]] = []
    make(lambda *parts: answers.append(parts)).refuse(ERROR)
    assert answers == [answer]


def test_every_request_is_here() -> None:
    kinds = {
        name
        for module in (group_messages, transaction_messages)
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__ and hasattr(kind, "refuse")
    }
    assert kinds == set(ANSWERS)
