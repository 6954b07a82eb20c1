"""What the consumer groups of a shard need from their broker: metadata, settings, and a thread for regular expressions.

Owner: `Groups` makes it, `ConsumerKind` uses it. Tests give their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamactors.broker.group.consumer.consumer_events import ConsumerRules
from streamactors.broker.metadata.image import MetadataImage

Run = Callable[[Callable[[], Any], Callable[[Any], object]], object]
"""Calls a function on a helper thread, then another one with its HelperOutcome on the data plane."""


@dataclass(frozen=True, slots=True)
class ConsumerSurroundings:
    """Functions of the broker."""

    image: Callable[[], MetadataImage]
    rules: Callable[[str], ConsumerRules]  # of a group
    run: Run


def alone(image: MetadataImage | None = None, rules: ConsumerRules | None = None) -> ConsumerSurroundings:
    """Return surroundings without a broker: fixed metadata and settings; regular expressions are not resolved."""
    found, fixed = image or MetadataImage(), rules or ConsumerRules()
    return ConsumerSurroundings(lambda: found, lambda _: fixed, lambda *_: None)
