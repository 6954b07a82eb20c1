"""The answer that says one error for everything a request asked of a transaction coordinator.

Owner: the coordinator and whoever finds that there is none. Pure."""

from __future__ import annotations

from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.transaction_events import (
    ErrorAnswer,
    InitAnswer,
    InitProducerId,
    VerifyAnswer,
    VerifyPartitions,
)
from streamactors.broker.transaction.transaction_messages import (
    DescribeTransaction,
    ListTransactions,
    Request,
    ToTransaction,
)


def refuse(request: Request, error: ErrorCode) -> None:
    """Answer a request with an error."""
    match request:
        case ToTransaction(_, InitProducerId(reply_to)):
            reply_to(InitAnswer(error))  # type: ignore[operator]
        case ToTransaction(_, VerifyPartitions(reply_to, _, _, partitions)):
            reply_to(VerifyAnswer(tuple((p, error) for p in sorted(partitions))))  # type: ignore[operator]
        case ToTransaction(_, event):
            event.reply_to(ErrorAnswer(error))  # type: ignore[operator]
        case DescribeTransaction():
            request.reply_to(error, None)
        case ListTransactions():
            request.reply_to(error, ())
