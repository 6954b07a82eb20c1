"""An API of the broker: what a file `apis/apiNN_name.py` declares, and the table of them.

Owner: the server. The table is made from the names of the files, so dropping a file in is all it takes; a module is
imported when its key is first asked for. What ApiVersions answers comes from this table and from nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.security import Authorise
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.broker.network.output import Part
    from streamactors.broker.request import Request

Body = Mapping[str, Any]
"""A response as a dictionary of Kafka's field names; see `protocol.messages`."""


class Later(Enum):
    """What a handler returns instead of an answer."""

    LATER = "it will call request.answer exactly once"
    NO_ANSWER = "this request gets no response (acks=0)"


LATER: Final = Later.LATER
NO_ANSWER: Final = Later.NO_ANSWER


class ApiError(BrokerError):
    """A request that a handler refuses as a whole, with the answer its API's `refuse` makes."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message if message is not None else code.name)
        self.code = code  # type: ignore[misc]  # a class variable of the errors that have one code each
        self.message = message


class DuplicateApi(StreamActorsError):
    """Two files that want to serve the same key."""


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its key, the versions served (both inclusive), who may use it and what it does.

    `refuse` makes the answer that gives one error for everything asked; without it the answer is that code in the
    response's own `error_code`. `decode` and `encode` replace the general codec."""

    key: int
    versions: tuple[int, int]
    authorise: Authorise
    handle: Callable[[Request], Any]
    refuse: Callable[[Request, ErrorCode], Any] | None = None
    decode: Callable[[memoryview, int, int], Any] | None = None  # (frame, position, version)
    encode: Callable[[Any, int, int], list[Part]] | None = None  # (answer, version, correlation id) -> whole frame


_FILE: Final = re.compile(r"api(\d\d)_\w+")


class Routes:
    """Which API serves which key."""

    def __init__(self, modules: Mapping[int, str], apis: Iterable[Api] = ()) -> None:
        self._modules = dict(modules)
        self.loaded = {api.key: api for api in apis}
        """Those asked for before, by key; `get` finds the others."""

    @classmethod
    def of_package(cls, package: ModuleType) -> Routes:
        """Make the table of a package's files. Raises DuplicateApi if two of them want one key."""
        modules: dict[int, str] = {}
        for info in iter_modules(package.__path__, f"{package.__name__}."):
            match = _FILE.fullmatch(info.name.rpartition(".")[2])
            if match is None:
                continue
            key = int(match[1])
            if key in modules:
                raise DuplicateApi(f"API key {key}: {modules[key]} and {info.name} both want it; remove one")
            modules[key] = info.name
        return cls(modules)

    def get(self, key: int) -> Api | None:
        """Return the API of a key; None if it is not served."""
        api = self.loaded.get(key)
        if api is None and key in self._modules:
            api = self.loaded[key] = self._load(key)
        return api

    @cached_property
    def ranges(self) -> list[tuple[int, int, int]]:
        """(key, lowest version, highest version) of everything served, by key."""
        apis = [self.get(key) for key in sorted(self._modules.keys() | self.loaded.keys())]
        return [(api.key, *api.versions) for api in apis if api is not None]

    def _load(self, key: int) -> Api:
        name = self._modules[key]
        api: Api = import_module(name).API
        if api.key != key:
            raise DuplicateApi(f"{name} serves API key {api.key}; its name says {key}")
        return api
