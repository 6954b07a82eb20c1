"""The declaration of an API in a file `apis/apiNN_name.py`, and the table of all APIs.

Owner: the server. The names of the files make the table, so a new API only needs a file. A module is imported on the first
request for its key. ApiVersions answers with this table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.request import Request
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.broker.network.output import Part

Body = Mapping[str, Any]
"""A response as a dictionary of Kafka's field names; see `protocol.messages`."""


class Later(Enum):
    """Returned by a handler instead of an answer."""

    LATER = "a reply function of request.answer_with will answer"
    NO_ANSWER = "this request gets no response (acks=0)"


LATER: Final = Later.LATER
NO_ANSWER: Final = Later.NO_ANSWER


class DuplicateApi(StreamActorsError):
    """Two files serve the same key."""


class PartlyRefused(NamedTuple):
    """A request of which only a part may be forwarded. `rest` is the body of that part; `answer` makes the client's answer from the
    controller's answer to it."""

    rest: Body
    answer: Callable[[Any], Body]


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its key, the versions served (both inclusive), the check of rights, and the handler.

    `refuse` returns the answer with one error for everything asked; without `refuse` the answer is the code in the response's
    `error_code`. `decode` and `encode` replace the general codec. `here` is the part of the check that needs the client's connection: a
    broker makes it before it forwards a request to the controller. `refused_here` looks at the decoded request. `alone`: the
    connection serves no other request until this one is answered, because the next request may read what this one writes. In Apache Kafka
    every request is served alone.

    `forwarded`: only the active controller can serve it, so a broker sends it there. `on_controllers`: a listener for controllers serves it, too, as it
    does every forwarded one. `between_nodes`: brokers and controllers ask it of each other. Other requests wait for its answer, so it never
    waits for their bytes (`Limits.max_in_flight_bytes`). `charged`: the quotas of its client count it."""

    key: int
    versions: tuple[int, int]
    authorise: Callable[[Request], ErrorCode]
    handle: Callable[[Request], Any]
    refuse: Callable[[Request, ErrorCode], Any] | None = None
    decode: Callable[[memoryview, int, int], Any] | None = None  # (frame, position, version)
    encode: Callable[[Any, int, int], list[Part]] | None = None  # (answer, version, correlation id) -> whole frame
    here: Callable[[Request], ErrorCode] | None = None
    refused_here: Callable[[Request], Any] | None = (
        None  # the answer to a request that may not be forwarded, None if it may; or a PartlyRefused
    )
    alone: bool = False
    forwarded: bool = False
    on_controllers: bool = False
    between_nodes: bool = False
    charged: bool = True


_FILE: Final = re.compile(r"api(\d\d)_\w+")


class Routes:
    """The APIs by key. Those of a listener for controllers have the table `beside` them, whose APIs they serve as far as these say so."""

    def __init__(self, modules: Mapping[int, str], apis: Iterable[Api] = (), *, beside: Routes | None = None) -> None:
        self._modules = dict(modules)
        self._beside = beside
        self.loaded = {api.key: api for api in apis}
        """The imported APIs, by key; `get` imports the others."""

    @classmethod
    def of_package(cls, package: ModuleType, *, beside: Routes | None = None) -> Routes:
        """Return the table of a package's files. Raises DuplicateApi if two have one key."""
        modules: dict[int, str] = {}
        for info in iter_modules(package.__path__, f"{package.__name__}."):
            match = _FILE.fullmatch(info.name.rpartition(".")[2])
            if match is None:
                continue
            key = int(match[1])
            if key in modules:
                raise DuplicateApi(f"API key {key}: {modules[key]} and {info.name} both serve it; remove one")
            modules[key] = info.name
        return cls(modules, beside=beside)

    def get(self, key: int) -> Api | None:
        """Return the API of a key, None if it is not served."""
        api = self.loaded.get(key)
        if api is None and key in self._modules:
            api = self.loaded[key] = self._load(key)
        if api is None and self._beside is not None:
            other = self._beside.get(key)
            return other if other is not None and (other.forwarded or other.on_controllers) else None
        return api

    @property
    def keys(self) -> Set[int]:
        """The keys of the table; those `beside` it may not be served."""
        return self._modules.keys() | self.loaded.keys() | (set() if self._beside is None else self._beside.keys)

    @cached_property
    def ranges(self) -> list[tuple[int, int, int]]:
        """(key, lowest version, highest version) of every API, by key."""
        apis = [self.get(key) for key in sorted(self.keys)]
        return [(api.key, *api.versions) for api in apis if api is not None]

    def _load(self, key: int) -> Api:
        name = self._modules[key]
        api: Api = import_module(name).API
        if api.key != key:
            raise DuplicateApi(f"{name} serves API key {api.key}; its name says {key}")
        return api
