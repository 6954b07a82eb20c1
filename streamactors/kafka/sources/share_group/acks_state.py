"""Acks: the acknowledgements to send to one broker, and those in its request.

A broker refuses all acknowledgements of a partition in one request if one of them is no longer due (its lock has ended). Such a group is
halved and sent again, until only the offset that is lost is refused. Owner: `session_state.py`."""

from __future__ import annotations

from collections import deque
from typing import Final

from streamactors.kafka.client.share.protocol import Ack, AckRange, Shard

Group = dict[int, Ack]
"""Offset -> acknowledgement, of one partition in one request."""

_FINAL: Final = frozenset({Ack.ACCEPT, Ack.RELEASE, Ack.REJECT})


class _ShardAcks:
    """The acknowledgements of one partition."""

    __slots__ = ("fresh", "halves", "sent")

    def __init__(self) -> None:
        self.fresh: Group = {}
        self.halves: deque[Group] = deque()
        self.sent: Group = {}

    @property
    def waiting(self) -> bool:
        return bool(self.fresh or self.halves)


class Acks:
    """Acknowledgements by partition: waiting, or sent and not answered."""

    def __init__(self) -> None:
        self.locked = 0
        """The number of locked records that are done and whose acknowledgement is not answered."""
        self._renewals = 0  # that wait
        self._shards: dict[Shard, _ShardAcks] = {}

    def add(self, shard: Shard, offset: int, ack: Ack) -> None:
        """Have an offset acknowledged. It takes the place of a renewal that waits."""
        of = self._shards.get(shard)
        if of is None:
            of = self._shards[shard] = _ShardAcks()
        group = of.fresh
        if of.halves:
            group = next((half for half in of.halves if offset in half), group)
        before = group.get(offset)
        self._renewals += (ack is Ack.RENEW) - (before is Ack.RENEW)
        self.locked += (ack in _FINAL) - (before in _FINAL)
        group[offset] = ack

    @property
    def waiting(self) -> bool:
        """True if something is to be sent."""
        return any(of.waiting for of in self._shards.values())

    @property
    def renewing(self) -> bool:
        """True if a renewal is to be sent."""
        return self._renewals > 0

    def sendable(self) -> dict[Shard, Group]:
        """Return the next group of each partition that has one."""
        return {
            shard: of.halves[0] if of.halves else of.fresh
            for shard, of in self._shards.items()
            if of.waiting and not of.sent
        }

    def send(self, shards: dict[Shard, Group]) -> dict[Shard, list[AckRange]]:
        """Note that these groups, of `sendable`, are in a request; return them as ranges in the order of offsets."""
        for shard, group in shards.items():
            of = self._shards[shard]
            of.sent = group
            self._renewals -= sum(ack is Ack.RENEW for ack in group.values())
            if of.halves:
                of.halves.popleft()
            else:
                of.fresh = {}
        return {shard: ranges(group) for shard, group in shards.items()}

    def sendable_finals(self, shards: frozenset[Shard]) -> int:
        """Return how many locked records the next groups of these partitions would unlock."""
        return sum(finals(group) for shard, group in self.sendable().items() if shard in shards)

    def waits_outside(self, shards: frozenset[Shard]) -> bool:
        """Return whether something is to be sent for another partition than these."""
        return any(of.waiting for shard, of in self._shards.items() if shard not in shards)

    @property
    def needs_several(self) -> bool:
        """True if one request cannot carry everything that waits."""
        return any(len(of.halves) + bool(of.fresh) > 1 for of in self._shards.values())

    @property
    def in_request(self) -> list[Shard]:
        """The partitions with a group that is not answered."""
        return [shard for shard, of in self._shards.items() if of.sent]

    def answered(self, shard: Shard) -> Group:
        """A partition's group was processed, or is lost; return it."""
        of = self._shards.get(shard)
        if of is None:
            return {}
        sent, of.sent = of.sent, {}
        self.locked -= finals(sent)
        if not of.waiting:
            del self._shards[shard]
        return sent

    def refused(self, shard: Shard) -> Group:
        """A partition's group was refused because of some of its offsets. Return the group if it has only one, else send its halves."""
        of = self._shards.get(shard)
        if of is None or len(of.sent) < 2:
            return self.answered(shard)
        offsets = sorted(of.sent)
        middle = len(offsets) // 2
        of.halves.extend({each: of.sent[each] for each in part} for part in (offsets[:middle], offsets[middle:]))
        self._renewals += sum(ack is Ack.RENEW for ack in of.sent.values())
        of.sent = {}
        return {}

    def clear(self) -> int:
        """Forget everything; return the number of records whose acknowledgement is lost."""
        lost, self.locked, self._renewals = self.locked, 0, 0
        self._shards.clear()
        return lost


def finals(group: Group) -> int:
    """Return the number of records of a group that are done."""
    return sum(ack in _FINAL for ack in group.values())


def ranges(group: Group) -> list[AckRange]:
    """Return a group as ranges of equal acknowledgements, in the order of offsets."""
    found: list[AckRange] = []
    for offset in sorted(group):
        ack = group[offset]
        if found and found[-1].last == offset - 1 and found[-1].ack is ack:
            found[-1] = found[-1]._replace(last=offset)
        else:
            found.append(AckRange(offset, offset, ack))
    return found
