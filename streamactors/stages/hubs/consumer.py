"""What the consumers of a BroadcastHub and of a PartitionHub have in common: they join when they start, and the hub wakes them.

Owner: the consumer's island. The hub's own lock guards what is shared."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from streamactors.engine.logic import SourceLogic


class Hub(Protocol):
    """What the producer's side and the consumers share."""

    def join(self, consumer: Any, /) -> None:
        """Let a consumer take part from now on."""

    def leave(self, consumer: Any, /) -> None:
        """Forget a consumer."""


H = TypeVar("H", bound=Hub)


class HubConsumerLogic(SourceLogic, Generic[H]):
    """A consumer. The hub calls `wake` when there is something to look at, if the consumer `waits`."""

    def __init__(self, stage: Any, hub: H, waits: bool) -> None:
        super().__init__(stage)
        self.hub = hub
        self.waits = waits
        self.wake = self.async_callback(self._look)

    def on_start(self) -> None:
        self.hub.join(self)
        self.on_pull(self.out)

    def _look(self, _: None) -> None:
        self.on_pull(self.out)

    def on_stop(self) -> None:
        self.hub.leave(self)
