"""Session: the share session with one broker: its epoch, its partitions, and the one request that is on its way.

Owner: `queue_state.py`. Source: KIP-932 (share sessions)."""

from __future__ import annotations

from typing import Final

from streamactors.kafka.client.share.protocol import Purpose, Shard, ShareRequest
from streamactors.kafka.sources.share_group.acks_state import Acks

OPENING: Final = 0
FINAL: Final = -1
_LAST_EPOCH: Final = 2**31 - 1


class Session:
    """The session of one member with one broker."""

    def __init__(self, broker: int, member_id: str) -> None:
        self.broker = broker
        self.member_id = member_id
        self.epoch = OPENING
        self.wanted: frozenset[Shard] = frozenset()
        """The assigned partitions that this broker leads."""
        self.acks = Acks()
        self.closing = False
        """True if the next request ends the session."""
        self.request: ShareRequest | None = None
        """The request on its way."""
        self.last_fetch = 0
        """The number of the last fetch, over all brokers: who has waited longest is served first."""
        self.failures = 0
        """Requests that failed in a row."""
        self.not_before_ms = 0.0
        """No request is sent before this time."""
        self.gather_until_ms = 0.0
        """While there is work in hand, no small request is sent before this time."""
        self.shards: frozenset[Shard] = frozenset()
        """The partitions of the session: the broker has answered a fetch for each."""

    @property
    def is_open(self) -> bool:
        return self.epoch != OPENING

    def fetch(self, max_records: int, max_wait_ms: int, number: int) -> ShareRequest:
        """Return the request for records, with the acknowledgements of partitions that stay in the session."""
        groups = self.acks.sendable() if self.is_open else {}
        acks = self.acks.send({shard: group for shard, group in groups.items() if shard in self.wanted})
        self.last_fetch = number
        return self._sent(
            ShareRequest(
                Purpose.FETCH,
                self.member_id,
                self.epoch,
                acks,
                tuple(sorted(self.wanted - self.shards)),
                tuple(sorted(self.shards - self.wanted)),
                max_records,
                max_wait_ms,
            )
        )

    def acknowledge(self) -> ShareRequest:
        """Return the request that only acknowledges."""
        return self._sent(
            ShareRequest(Purpose.ACKNOWLEDGE, self.member_id, self.epoch, self.acks.send(self.acks.sendable()))
        )

    def close(self) -> ShareRequest:
        """Return the last request of the session."""
        return self._sent(ShareRequest(Purpose.CLOSE, self.member_id, FINAL, self.acks.send(self.acks.sendable())))

    def _sent(self, request: ShareRequest) -> ShareRequest:
        self.request = request
        return request

    def succeeded(self) -> None:
        """The broker has processed the request."""
        request, self.request = self.request, None
        assert request is not None
        self.failures = 0
        if request.purpose is Purpose.FETCH:
            self.shards = (self.shards | set(request.added)) - set(request.forgotten)
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def reset(self, member_id: str) -> int:
        """The session is gone; the next request opens another. Return the number of acknowledgements that are lost with it."""
        self.request = None
        self.member_id = member_id
        self.epoch = OPENING
        self.closing = False
        self.shards = frozenset()
        return self.acks.clear()
