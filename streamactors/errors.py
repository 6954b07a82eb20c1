"""Every error this package raises on purpose.

StreamActorsError
├── BuildError                  a graph that cannot run, found where it was written
├── StreamError                 a running stream failed
│   ├── StageFailed             user code raised; names the stage, the element and the user's file:line
│   ├── AbruptTermination       the system ended while the stream ran
│   ├── BufferOverflow          a bounded buffer was told to fail when full
│   ├── StreamLimitReached      limit(n) saw element n + 1
│   ├── StreamTimeout           idle, initial, completion or back-pressure timeout
│   ├── RateExceeded            throttle in enforcing mode
│   ├── NoSuchElement           head, last or reduce of an empty stream
│   └── ProtocolError           a stage broke a port law (a bug in that stage)
├── ActorError                  an actor or its system
└── KafkaError, BrokerError …   in the packages that raise them
"""

from __future__ import annotations


class StreamActorsError(Exception):
    """Base of every error raised on purpose by this package."""


class BuildError(StreamActorsError, ValueError):
    """A graph or an operator that cannot work, reported at the line that wrote it."""


class StreamError(StreamActorsError):
    """A running stream failed."""


class StageFailed(StreamError):
    """User code raised inside a stage. `__cause__` is the user's own exception."""

    def __init__(self, message: str, *, stage: str = "", element: object = None) -> None:
        super().__init__(message)
        self.stage = stage
        self.element = element


class AbruptTermination(StreamError):
    """The actor system ended while the stream was running."""


class BufferOverflow(StreamError):
    """A buffer with the strategy `fail` was full."""


class StreamLimitReached(StreamError):
    """`limit(n)` was given more than n elements."""


class StreamTimeout(StreamError, TimeoutError):
    """A stream missed one of its timeouts."""


class RateExceeded(StreamError):
    """`throttle` in enforcing mode was given elements faster than its rate."""


class NoSuchElement(StreamError, LookupError):
    """An element was asked of an empty stream."""


class ProtocolError(StreamError):
    """A stage broke a law of its ports; always a bug in that stage."""


class ActorError(StreamActorsError):
    """An actor or its system was used in a way that cannot work."""
