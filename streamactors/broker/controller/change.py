"""What passes through the controller: a command that waits, a change that is being committed, and who publishes it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from streamactors.broker.controller.command import Command, Plan
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.image import MetadataImage

if TYPE_CHECKING:
    from streamactors.broker.config.broker_config import BrokerConfig

Reply = Callable[[Any], object]


class Submitted(NamedTuple):
    """A command in the controller's mailbox."""

    command: Command
    reply: Reply


class Change(NamedTuple):
    """A change that is in the log and not committed yet. `command` is what asked for it, None for the controller itself."""

    delta: ImageDelta
    folders: list[tuple[str, int]]  # made for it
    made: Plan
    reply: Reply
    command: Command | None


class Publisher(Protocol):
    """Makes the broker follow the image: `metadata_publisher.MetadataPublisher`."""

    def config_under(self, image: MetadataImage) -> BrokerConfig: ...

    def reconcile(self, delta: ImageDelta) -> None: ...

    def discard_strays(self, image: MetadataImage, was_deleted: Callable[[uuid.UUID | None], bool]) -> None: ...

    def prepare(self, delta: ImageDelta) -> list[tuple[str, int]]: ...

    def withdraw(self, folders: Iterable[tuple[str, int]]) -> None: ...

    def apply(self, delta: ImageDelta) -> None: ...
