"""The results of an offer to a queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


class QueueOfferResult:
    """The result of an offer. In a condition it is true only when the element is in the queue."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True)
class Enqueued(QueueOfferResult):
    """The element is in the queue."""

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True)
class Dropped(QueueOfferResult):
    """The queue was full and the element is not in it."""


@dataclass(frozen=True)
class QueueClosed(QueueOfferResult):
    """The queue was completed, or downstream has cancelled."""


@dataclass(frozen=True)
class Failure(QueueOfferResult):
    """The stream has failed with `cause`."""

    cause: BaseException


ENQUEUED: Final = Enqueued()
DROPPED: Final = Dropped()
QUEUE_CLOSED: Final = QueueClosed()
