"""What a request on a channel gets: a decoded answer, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from streamactors.errors import StreamActorsError


class ChannelBroken(StreamActorsError):
    """A request that got no answer: the node cannot be reached, closed the connection, or was silent for too long."""


class ChannelClosed(ChannelBroken):
    """The other node closed the connection, or refused it, or its process has ended."""


class ChannelRefused(ChannelClosed):
    """The address refused the connection: the process of the other node has ended, or has not started yet."""


class UnsupportedByPeer(ChannelBroken):
    """The other node does not serve this request in a version that we can send. The connection stays open."""


class ChannelAnswer(NamedTuple):
    """A decoded answer, or an error instead."""

    value: Any = None
    error: ChannelBroken | None = None


Then = Callable[[ChannelAnswer], object]
OnFrame = Callable[[memoryview | ChannelBroken], object]
