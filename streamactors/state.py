"""Where a run keeps its state: in memory, or on disk with a bounded cache in front."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from streamactors.errors import BuildError

_UNITS: Final = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SIZE: Final = re.compile(r"(\d+)\s*([KMGT]?B?)", re.IGNORECASE)
TOKEN: Final = "STREAMACTORS_QUERY_TOKEN"  # noqa: S105 - the name of an environment variable
SMALLEST_CACHE: Final = 8 << 20


def require_rocksdict() -> None:
    """Raise BuildError with the pip line if rocksdict is not installed."""
    if find_spec("rocksdict") is None:
        raise BuildError("state on disk needs rocksdict, which is not installed; pip install 'streamactors[state]'")


def to_bytes(size: object, what: str) -> int:
    """Return a size such as "256MB" or 1_000_000 in bytes. KB, MB, GB and TB are powers of 1,024. Raises BuildError."""
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    match = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    unit = match[2].upper() if match else ""
    if match is None or (unit and unit not in _UNITS and f"{unit}B" not in _UNITS):
        raise BuildError(f'{what} is {size!r}, which is not a size; write it as "256MB", "10GB" or a number of bytes')
    return int(match[1]) * _UNITS[unit if unit in _UNITS else f"{unit}B"]


@dataclass(frozen=True, slots=True)
class State:
    """Where tables, windows and stores keep their state. Make one with `State.in_memory` or `State.on_disk`."""

    path: Path | None = None
    """The folder; None: memory."""
    cache_bytes: int = 256 << 20
    """The memory that all stores of a run may use together."""
    quota_bytes: int | None = None
    """The most bytes on disk; None: as many as there are."""
    standbys: int = 0
    """1 or more: every instance follows the changelogs of the tasks of the others; 0: none does."""
    advertise: str | None = None
    """The "host:port" at which other instances ask this one for its stores."""
    token: str | None = field(default=None, repr=False)
    """What such requests must send."""

    def __post_init__(self) -> None:
        if self.path is not None and not isinstance(self.path, Path):
            raise BuildError(f"State: path is {self.path!r}; use State.on_disk(path) or State.in_memory()")

    @classmethod
    def in_memory(cls, *, advertise: str | None = None, token: str | None = None) -> State:
        """State in the memory of this process, restored from its changelogs. `advertise` and `token` as in on_disk."""
        return cls(advertise=_address(advertise), token=_token(advertise, token))

    @classmethod
    def on_disk(
        cls,
        path: str | Path,
        *,
        cache: str | int = "256MB",
        quota: str | int | None = None,
        standbys: int = 0,
        advertise: str | None = None,
        token: str | None = None,
    ) -> State:
        """State in a folder of this machine, with `cache` bytes of memory in front, for all stores of a run together.

        `quota`: the most bytes on disk; a run that needs more fails. `standbys`: 1 or more has every instance
        of the group keep a copy of the tasks of the others, so that it takes them over at once; 0 has none.
        `advertise`: the "host:port" at which this instance answers queries; `token`: what they must send (default: the environment variable
        STREAMACTORS_QUERY_TOKEN). Each instance needs a folder of its own.

        Raises BuildError for values that cannot work, and if rocksdict is not installed."""
        cache_bytes = to_bytes(cache, "State.on_disk: cache")
        if cache_bytes < SMALLEST_CACHE:
            raise BuildError(f"State.on_disk: cache is {cache!r}; it must be at least {SMALLEST_CACHE >> 20}MB")
        if not isinstance(path, str | Path) or not str(path):
            raise BuildError(f"State.on_disk: path is {path!r}; give the folder of the state")
        if not isinstance(standbys, int) or isinstance(standbys, bool) or standbys < 0:
            raise BuildError(f"State.on_disk: standbys is {standbys!r}; give a number of instances, 0 or more")
        require_rocksdict()
        quota_bytes = None if quota is None else to_bytes(quota, "State.on_disk: quota")
        return cls(Path(path), cache_bytes, quota_bytes, standbys, _address(advertise), _token(advertise, token))


def _token(advertise: object, token: object) -> str | None:
    if advertise is None:
        return None
    token = os.environ.get(TOKEN) if token is None else token
    if not isinstance(token, str) or not token:
        raise BuildError(
            f"State: advertise={advertise!r} needs a token, or every program of this machine could read the stores: give token=…, or set {TOKEN}"
        )
    return token


def _address(advertise: object) -> str | None:
    if advertise is None:
        return None
    host, _, port = advertise.rpartition(":") if isinstance(advertise, str) else ("", "", "")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise BuildError(
            f'State: advertise is {advertise!r}; give "host:port", at which other instances reach this one'
        )
    return str(advertise)
