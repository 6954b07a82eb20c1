"""The stores that a processor names: immutable definitions, checked when they are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from streamactors.durations import EventSpan, event_ms
from streamactors.errors import BuildError
from streamactors.windows.definitions.names import checked_name

_TOUCHES: Final = ("write", "read")


@dataclass(frozen=True)
class StoreDefinition:
    """A store by its name; the name is also that of its changelog."""

    name: str
    """The name of the store, and of its changelog."""

    kind = "store"

    def __post_init__(self) -> None:
        checked_name(type(self).__name__, self.name)

    @property
    def shape(self) -> str:
        """What the changelog says about the store; a changelog of another shape is refused."""
        return f"{self.kind} store"


@dataclass(frozen=True)
class KeyValueStore(StoreDefinition):
    """One value per key. Expired entries are never read.

    `ttl` is milliseconds, a timedelta or a string. Raises BuildError for values that cannot work."""

    ttl: EventSpan | None = None
    """An entry expires when stream time has passed its last write by this time. None: entries do not expire."""
    on_expire: Callable[[Any, Any], Any] | None = None
    """`on_expire(key, value)` is called when an expired entry is removed, before the next row is processed. A Record or a list of Records that
    it returns is forwarded."""
    touch: Literal["write", "read"] = "write"
    """"read": reading an entry renews it, too."""
    ttl_ms: int | None = field(init=False, default=None, repr=False)

    kind = "key-value"

    def __post_init__(self) -> None:
        super().__post_init__()
        where = f"KeyValueStore {self.name}"
        if self.ttl is not None:
            object.__setattr__(self, "ttl_ms", event_ms(self.ttl, f"{where}: ttl", minimum=1))
        if self.touch not in _TOUCHES:
            raise BuildError(f'{where}: touch is {self.touch!r}; choose "write" or "read"')
        if self.on_expire is not None and not callable(self.on_expire):
            raise BuildError(f"{where}: on_expire is {self.on_expire!r}; give a function of key and value")
        if self.ttl is None and (self.on_expire is not None or self.touch != "write"):
            raise BuildError(f"{where}: on_expire and touch need ttl=, without which nothing expires")

    @property
    def shape(self) -> str:
        return "key-value store" if self.ttl is None else "key-value store with ttl"


@dataclass(frozen=True)
class WindowStore(StoreDefinition):
    """Values by key and time. `retention` is milliseconds, a timedelta or a string."""

    retention: EventSpan = 0
    """Entries that are older than the newest entry by this time or more are hidden and removed."""
    retain_duplicates: bool = False
    """True: entries of equal key and time are all kept, and None is ignored."""
    retention_ms: int = field(init=False, default=0, repr=False)

    kind = "window"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(
            self, "retention_ms", event_ms(self.retention, f"WindowStore {self.name}: retention", minimum=1)
        )

    @property
    def shape(self) -> str:
        return "window store with duplicates" if self.retain_duplicates else "window store"


@dataclass(frozen=True)
class SessionStore(StoreDefinition):
    """Values by key, start and end. Sessions that end `retention` (ms, a timedelta or a string) or more before the newest end put are hidden and removed."""

    retention: EventSpan = 0
    """How long a session is kept after its end: milliseconds, a timedelta or a string such as "1h"."""
    retention_ms: int = field(init=False, default=0, repr=False)

    kind = "session"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(
            self, "retention_ms", event_ms(self.retention, f"SessionStore {self.name}: retention", minimum=1)
        )


@dataclass(frozen=True)
class VersionedStore(StoreDefinition):
    """The versions of each key's value. Versions whose validity ended `history` (ms, a timedelta or a string) before the newest time put are removed.

    The newest version of a key is kept forever. A put that is older than `history` is refused."""

    history: EventSpan = 0
    """How long a version is kept after its validity has ended: milliseconds, a timedelta or a string such as "1h"."""
    history_ms: int = field(init=False, default=0, repr=False)

    kind = "versioned"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "history_ms", event_ms(self.history, f"VersionedStore {self.name}: history"))
