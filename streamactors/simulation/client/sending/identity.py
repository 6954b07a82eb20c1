"""The producer id and epoch of an idempotent producer.

Owner: the sender. Records that were given up leave a gap in the sequence numbers: a producer without transactions gets another id then, a
transactional one gets its next epoch when the transaction is aborted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.simulation.client.link import Link
from streamactors.simulation.cluster.apis.transactions import Init, init_producer_id

_AGAIN_MS: Final = 100.0


class Identity:
    """Who writes."""

    def __init__(self, link: Link, *, transactional: bool) -> None:
        """A transactional producer is told its id by `given`; another one asks for it when it first writes."""
        self.producer_id = -1
        self.producer_epoch = -1
        self.renewed: Callable[[], None] = lambda: None
        """Called when there is a new id or epoch."""
        self.gap = False
        """Whether records were given up since."""
        self._link = link
        self._transactional = transactional
        self._asking = False

    def ready(self) -> bool:
        """Whether records may be sent now. Asks for an id if there is none."""
        if self.producer_id < 0 and not self._transactional:
            self._ask()
        return self.producer_id >= 0 and not self.gap

    def given(self, producer_id: int, producer_epoch: int) -> None:
        """Take an id and epoch; sequence numbers begin at 0 again."""
        self.producer_id, self.producer_epoch, self.gap = producer_id, producer_epoch, False
        self.renewed()

    def has_gap(self) -> None:
        """Records were given up: their sequence numbers will be missing."""
        self.gap = True

    def renew(self, *, idle: bool) -> None:
        """Get another id if one is needed and nothing is on its way."""
        if self.gap and idle and not self._transactional:
            self._ask()

    def _ask(self) -> None:
        if self._asking:
            return
        self._asking = True

        def then(error: ErrorCode | None, answer: tuple[int, int] | None) -> None:
            self._asking = False
            if error is ErrorCode.NONE and answer is not None:
                self.given(*answer)
            else:
                self._link.later(_AGAIN_MS, self._ask, "producer id again")

        self._link.ask(init_producer_id, self._link.cluster.any_broker(), Init(None), then)
