"""The metadata that requests read: the newest published image, and its subscribers.

Owner: the data plane's thread. The controller publishes images. A request reads `image` once, so that all parts of its answer
agree."""

from __future__ import annotations

import logging
from collections.abc import Callable

from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.image import MetadataImage

_log = logging.getLogger("streamactors.broker.metadata")

Subscriber = Callable[[ImageDelta], object]


class MetadataCache:
    """The published image and its subscribers."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with every later change, before the client that asked for the change is answered."""
        self._subscribers.append(subscriber)

    def publish(self, delta: ImageDelta) -> None:
        """Replace the image and call the subscribers, all of them even if one raises."""
        self.image = delta.image
        for subscriber in self._subscribers:
            try:
                subscriber(delta)
            except Exception:  # noqa: BLE001 - the other subscribers must be called
                _log.exception("%r failed on a change of the metadata", subscriber)
