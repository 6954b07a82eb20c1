"""The warning about windows after a repartition whose grace is shorter than the group's session timeout.

When an instance is killed, its partitions are read again only after the session timeout. Meanwhile the rows of the other instances move the
stream time of the repartition topic, so the rows of the dead instance come late: with a shorter grace they are dropped."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from streamactors.kafka.settings import ConsumerSettings
from streamactors.log_limit import log_limited

DEFAULT_MS: Final = 45_000
"""session.timeout.ms of librdkafka, and of Apache Kafka's brokers for the new group protocol."""
_log = logging.getLogger("streamactors.kafka")


def session_timeout_ms(settings: ConsumerSettings) -> int:
    """Return the time after which the partitions of a dead member are given to others. In the new group protocol the broker knows it: its default."""
    if settings.group_protocol != "classic":
        return DEFAULT_MS
    return int(settings.client_properties().get("session.timeout.ms", DEFAULT_MS))


def warn_of_short_grace(settings: ConsumerSettings, graces: Mapping[str, int]) -> None:
    """Log each step of `graces` (ms) that drops rows after a crash."""
    session_ms = session_timeout_ms(settings)
    for node, grace_ms in graces.items():
        if grace_ms <= session_ms:
            log_limited(
                _log, logging.WARNING, (settings.group_id, node),
                "%s of %s: grace %g s is not longer than session.timeout.ms, %g s: rows are dropped as late after an instance was killed, because its "
                "partitions are read again only then; give a longer grace or a shorter session.timeout.ms",
                node, settings.group_id, grace_ms / 1_000, session_ms / 1_000,
            )  # fmt: skip
