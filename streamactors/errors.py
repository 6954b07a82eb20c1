"""The errors that this package raises on purpose.

StreamActorsError
├── BuildError                  a graph that cannot run, found where it was written
├── StreamError                 a running stream failed
│   ├── StageFailed             user code raised; names the stage, the element and the user's file:line
│   ├── WorkerDied              a worker process ended before its work; names its stages and the signal
│   ├── AbruptTermination       the system ended while the stream ran
│   ├── BufferOverflow          a bounded buffer that fails when it is full was full
│   ├── StreamLimitReached      limit(n) saw element n + 1
│   ├── StreamTimeout           idle, initial, completion or back-pressure timeout
│   ├── RateExceeded            throttle in enforcing mode
│   ├── CallTimeout             a call of map_async lasted longer than its timeout
│   ├── CircuitOpen             a circuit breaker has refused a call
│   ├── CircuitTimeout          a call lasted longer than its circuit breaker allows
│   ├── NoSuchElement           head, last or reduce of an empty stream
│   ├── FramingError            bytes are not cut into frames, rows or objects as they should be
│   ├── CompressionError        compressed bytes are damaged, end too early or stand for too much
│   ├── ConnectionFailed        a socket could not be connected or bound, or its connection broke
│   ├── StreamRefError          the other end of a stream ref failed, died or refused the connection
│   ├── ProcessFailed           a child process could not be started, or ended with an exit code that says so
│   ├── UnknownStore            a run has no store of this name, or it cannot be read from outside
│   │   └── StoreNotReady       the store cannot be read now: ask again
│   └── ProtocolError           a stage broke a port law (a bug in that stage)
├── ActorError                  an actor or its system
└── KafkaError, BrokerError …   in the packages that raise them
"""

from __future__ import annotations

import re
from typing import Final

_INSIDE: Final = ("streamactors.broker.", "streamactors.cli.", "streamactors.demo.")
"""Packages whose errors end at a client or at a command, which says them in other words."""
_MET: Final = {"AckedRecordsDiffer", "BrokerError", "BrokerStartError", "InvalidSetting"}
"""The errors of these packages that users meet."""


class StreamActorsError(Exception):
    """Base of every error raised on purpose by this package. A traceback ends with `docs: errors#…`, where docs/errors.md describes the class."""

    at_start = False
    """True if a stage failed before it could begin to work, such as one that found no broker. A restart after that counts, however long the attempt
    took."""

    @classmethod
    def is_documented(cls) -> bool:
        """Return whether docs/errors.md has a heading for this class. Errors inside the broker have none."""
        return not cls.__module__.startswith(_INSIDE) or cls.__name__ in _MET

    @classmethod
    def anchor(cls) -> str:
        """Return the anchor of the class: `commit-timeout` for CommitTimeout."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()

    @classmethod
    def docs(cls) -> str:
        """Return where the documentation describes the class, or its nearest documented base: `errors#commit-timeout`.

        `streamactors docs errors#commit-timeout` prints it."""
        bases = (base for base in cls.__mro__ if issubclass(base, StreamActorsError))
        return f"errors#{next(base for base in bases if base.is_documented()).anchor()}"

    @property
    def __notes__(self) -> list[str]:
        """The notes that a traceback shows; the last one is where the documentation is. Nothing is formatted before somebody asks."""
        notes: list[str] = self.__dict__.setdefault("__notes__", [])
        told = f"docs: {self.docs()}"
        notes[:] = [*(note for note in notes if note != told), told]  # in place: add_note appends to this list
        return notes

    @__notes__.setter
    def __notes__(self, notes: list[str]) -> None:
        self.__dict__["__notes__"] = notes


class BuildError(StreamActorsError, ValueError):
    """A graph or an operator that cannot work, raised at the line that builds it."""


class StreamError(StreamActorsError):
    """A running stream failed."""


class StageFailed(StreamError):
    """User code raised inside a stage. `__cause__` is the user's own exception."""

    def __init__(self, message: str, *, stage: str = "", element: object = None) -> None:
        super().__init__(message)
        self.stage = stage
        self.element = element


class WorkerDied(StreamError):
    """A worker process has ended before its work was done."""


class AbruptTermination(StreamError):
    """The actor system ended while the stream was running."""


class CutShort(StreamError):
    """A signal stopped the stream before its sources had ended, so what the sink has is not the whole."""


class BufferOverflow(StreamError):
    """A buffer with the strategy `fail` was full."""


class StreamLimitReached(StreamError):
    """`limit(n)` was given more than n elements."""


class TooManySubstreams(StreamError):
    """`group_by` met a key that needs more substreams than it may have."""


class StreamTimeout(StreamError, TimeoutError):
    """A stream missed one of its timeouts."""


class RateExceeded(StreamError):
    """`throttle` in enforcing mode was given elements faster than its rate."""


class CallTimeout(StreamError, TimeoutError):
    """A call of `map_async` lasted longer than its `timeout`, and was cancelled."""


class CircuitOpen(StreamError):
    """A circuit breaker has refused a call, so the call was not made.

    `name` is the breaker's; `retry_after_ms` is the time until its next trial, 0 while a trial runs."""

    def __init__(self, message: str, *, name: str = "", retry_after_ms: float = 0.0) -> None:
        super().__init__(message)
        self.name = name
        self.retry_after_ms = retry_after_ms


class CircuitTimeout(StreamError, TimeoutError):
    """A call lasted longer than the `call_timeout` of its circuit breaker, and was cancelled."""


class NoSuchElement(StreamError, LookupError):
    """An empty stream has no element to return."""


class FramingError(StreamError, ValueError):
    """Bytes are not cut into frames, rows or objects as they should be: a frame is too long or ends too early."""


class CompressionError(StreamError, ValueError):
    """Compressed bytes are damaged, end too early, or stand for more than they may."""


class ConnectionFailed(StreamError, ConnectionError):
    """A socket could not be connected or bound, or its connection broke."""


class StreamRefError(StreamError):
    """The other end of a stream ref failed, died, refused the connection, or sent what it must not send."""


class ProcessFailed(StreamError):
    """A child process could not be started (`exit_code` is None), or ended with an exit code that was not accepted.

    A negative exit code is the number of the signal that ended the process."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UnknownStore(StreamError, LookupError):
    """A run has no store of this name, or the store cannot be read from outside."""


class StoreNotReady(UnknownStore):
    """A store cannot be read now: its state is being restored, no partition is assigned, or another instance does not answer. Ask again."""


class ProtocolError(StreamError):
    """A stage broke a rule of its ports; always a bug in that stage."""


class ActorError(StreamActorsError):
    """An actor or its system was used in a way that cannot work."""
