"""Refused writes: the reasons for which a broker refuses batches that librdkafka sends again, as KAFKA_STORAGE_ERROR of a full disk.

librdkafka tries such a batch until `message.timeout.ms`, and then reports only that it timed out. The broker's reason is in librdkafka's
debug lines about topics (`WITH_REASONS`): a few lines at the start, at each change of the metadata and at each refusal, none per batch.

Owner: the connection of one producer. Pure; times are seconds of one clock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

SAID_AFTER_S: Final = 5.0
OVER_AFTER_S: Final = 30.0
"""A refusal that was not repeated for so long is over. librdkafka waits at most retry.backoff.max.ms, 1 s, between two tries."""
_LINE: Final = re.compile(r"BROKERUA .*?: (\S+) \[(\d+)\]: broker unavailable: produce: (Broker: .+)")
_DISK: Final = "Disk error"


def with_reasons(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a producer with the debug lines that this module reads."""
    debug = str(properties.get("debug") or "")
    return {**properties, "debug": f"{debug},topic" if debug else "topic"}


@dataclass(slots=True)
class _Refusal:
    """The refusals of one partition, from the first to the last one known."""

    reason: str
    since: float
    last: float
    said: bool = False
    over: bool = False  # no record waits any more; the reason is kept for the errors of the last ones

    @property
    def seconds(self) -> float:
        return self.last - self.since


class RefusedWrites:
    """Collects the reasons with which brokers refuse batches. False while no batch has been refused."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._refusals: dict[tuple[str, int], _Refusal] = {}

    def __bool__(self) -> bool:
        return bool(self._refusals)

    def look(self, line: str, now_s: float) -> None:
        """Keep the refusal in a line of librdkafka's log, if there is one."""
        found = _LINE.search(line)
        if found is None:
            return
        key, reason = (found[1], int(found[2])), found[3]
        known = self._refusals.get(key)
        if known is None or known.over or now_s - known.last > OVER_AFTER_S:
            self._refusals[key] = _Refusal(reason, now_s, now_s)
        else:
            known.reason, known.last = reason, now_s

    def due(self, left: int) -> list[str]:
        """Return what is to be logged, now that `left` records are not acknowledged: once for each partition that is refused for a while."""
        said = []
        for (topic, number), each in self._refusals.items():
            each.over = each.over or not left
            if not each.said and not each.over and each.seconds >= SAID_AFTER_S:
                each.said = True
                said.append(
                    f"{topic}-{number}: the broker at {self._servers} refuses records for {each.seconds:.0f} s; they are sent again until "
                    f"message.timeout.ms: {_told(each.reason)}"
                )
        return said

    def reason(self, now_s: float, topic: str | None = None, partition: int | None = None) -> str:
        """Return why records are refused, of any topic and partition if none is named; an empty string if they are not."""
        for (name, number), each in self._refusals.items():
            if topic in (None, name) and partition in (None, number) and now_s - each.last <= OVER_AFTER_S:
                return f"the broker at {self._servers} refused records of {name}-{number} for {each.seconds:.0f} s: {_told(each.reason)}"
        return ""


def _told(reason: str) -> str:
    if _DISK in reason:
        return f"{reason} (KAFKA_STORAGE_ERROR); its disk is full or has failed, see the broker's log"
    return reason
