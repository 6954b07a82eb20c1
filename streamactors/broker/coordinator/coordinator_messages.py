"""The messages that every coordinator understands, beside the requests and events of its own kind.

Frozen. A request has a method `refuse(error)`, which answers it with one error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Loaded:
    """The partition has been read; `state` is what the shard takes over."""

    state: Any


@dataclass(frozen=True, slots=True)
class Confirmed:
    """All records that were read are committed: every later leader has them, too. A shard that depends on this serves the message."""


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The partition cannot be read."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class WriteCallbackFailed:
    """The callback of an append raised `error`. `log` tells an old shard from the current one."""

    log: object
    error: BaseException


@dataclass(frozen=True, slots=True)
class Restart:
    """The back-off after a failure is over: read the partition again."""


@dataclass(frozen=True, slots=True)
class Flush:
    """The turn is over: append its records."""


@dataclass(frozen=True, slots=True)
class Resign:
    """This broker no longer leads the partition."""
