"""Preflight: asks a broker for its topics before a stream begins, so that a wrong address is one sentence and not a long silence.

A broker that refuses, or whose name is unknown, has `preflight_timeout_ms` to come up. One that was reached and says nothing is most
likely there and busy: it has the time of a request besides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.kafka.client import REQUEST_TIMEOUT_MS, ck
from streamactors.kafka.errors import NoBroker
from streamactors.kafka.settings import ClientSettings

LOOK_EVERY_MS = 1_000
"""How often it is looked whether a silent broker has turned out to be none."""


def known_topics(client: Any, settings: ClientSettings, complaint: Callable[[], str]) -> Any:
    """Return the broker's topics by name, as librdkafka describes them. `complaint()`: what librdkafka has said last, "" for nothing.

    Waits for the answer. Raises NoBroker."""
    patience_ms = [LOOK_EVERY_MS] * (REQUEST_TIMEOUT_MS // LOOK_EVERY_MS)
    for wait_ms in (settings.preflight_timeout_ms, *patience_ms):
        try:
            return client.list_topics(timeout=wait_ms / 1_000).topics
        except ck.KafkaException:
            client.poll(0)  # lets it say what went wrong
            if complaint():
                break
    raise NoBroker(
        f"no broker at {settings.bootstrap_servers} ({complaint() or 'no answer'}); start one with: streamactors broker"
    )
