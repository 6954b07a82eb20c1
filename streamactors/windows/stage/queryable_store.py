"""QueryableStore: what `control.store(name)` returns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.errors import UnknownStore
from streamactors.windows.stage.store_reads import RunStores
from streamactors.windows.stage.store_shown import shown_store
from streamactors.windows.state.reads import StoreEntry, StoreRequest

if TYPE_CHECKING:
    from streamactors.mime_bundles import Bundle


class QueryableStore:
    """A store of a running graph. Every method returns a future, which can also be awaited.

    Committed values are read unless `dirty` is True: a read waits for the next commit if rows were processed since the last one. With
    `State(advertise=…)` the other instances of the group are asked for what is not here; else only the partitions of this instance are read.
    A future fails with UnknownStore if there is no such store, if no partition is assigned here, when the run ends, and while the state that
    may have the answer is being restored: `lag` says of how many partitions. With `stale` only this instance answers, also from its standby
    copies of the tasks of other instances (`State.on_disk(…, standbys=1)`): also while the owner of a key is away, but the value may be older;
    `copies` says by how many entries of the changelog."""

    def __init__(self, name: str, stores: RunStores) -> None:
        self.name = name
        self._reads = stores.stage_of(name)
        self._peers = stores.peers

    def get(self, key: Any, *, dirty: bool = False, stale: bool = False) -> StreamFuture[Any]:
        """Return the value of a key, or None. A key of a windowed table has several values: see `windows`."""
        value: StreamFuture[Any] = StreamFuture(f"store {self.name}")

        def on_found(found: list[StoreEntry]) -> None:
            if len(found) > 1 and found[0].start is not None:
                value.set_exception(
                    UnknownStore(f"store {self.name}: {key!r} has {len(found)} windows; ask for them: windows({key!r})")
                )
            else:
                value.set_result(found[0].value if found else None)

        self._then(self.ask(StoreRequest("get", key), dirty=dirty, stale=stale), on_found, value)
        return value

    def range(
        self, first: Any = None, last: Any = None, *, dirty: bool = False, stale: bool = False
    ) -> StreamFuture[list[StoreEntry]]:
        """Return the entries of the keys from `first` to `last`, both included; None: no bound. Numbers are ordered by value,
        other keys by their bytes."""
        return self.ask(StoreRequest("range", first, last), dirty=dirty, stale=stale)

    def prefix(self, prefix: Any, *, dirty: bool = False, stale: bool = False) -> StreamFuture[list[StoreEntry]]:
        """Return the entries of the keys whose bytes begin with those of `prefix`."""
        return self.ask(StoreRequest("prefix", prefix), dirty=dirty, stale=stale)

    def items(self, *, dirty: bool = False, stale: bool = False) -> StreamFuture[list[StoreEntry]]:
        """Return all entries."""
        return self.range(dirty=dirty, stale=stale)

    def windows(
        self,
        key: Any,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        dirty: bool = False,
        stale: bool = False,
    ) -> StreamFuture[list[StoreEntry]]:
        """Return the windows of a key that begin from `first_ms` to `last_ms`, both included; None: no bound."""
        return self.ask(StoreRequest("windows", key, None, first_ms, last_ms), dirty=dirty, stale=stale)

    def copies(self) -> StreamFuture[dict[int, int]]:
        """Return the lag of each standby copy of this instance, by partition number: number of changelog entries that the copy still lacks. Reads
        with `stale` see the copy without them. Fails with UnknownStore if this instance keeps no copies."""
        return self._reads.lag_of_copies(self.name)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """Show some entries of this instance in a notebook, as they are now, also those that are not committed yet."""
        return shown_store(self.name, self._reads)

    def ask(
        self, request: StoreRequest, *, dirty: bool = False, local: bool = False, stale: bool = False
    ) -> StreamFuture[list[StoreEntry]]:
        """Return what `request` finds; `local`: do not ask other instances."""
        if stale:
            return self._ask_copies(request, dirty=dirty)
        here = self._reads.read(self.name, request, dirty=dirty, none_assigned_ok=self._peers is not None and not local)
        peers = self._peers
        if peers is None or local:
            return here
        everywhere: StreamFuture[list[StoreEntry]] = StreamFuture(f"store {self.name}")

        def on_found(found: list[StoreEntry]) -> None:
            if found and request.kind in ("get", "windows"):
                everywhere.set_result(found)
            else:
                asking = threading.Thread(target=ask_others, args=(found,), name=f"query {self.name}", daemon=True)
                asking.start()

        def ask_others(found: list[StoreEntry]) -> None:
            assert peers is not None
            try:
                found = found + peers.ask(self.name, request, dirty=dirty)
            except Exception as error:  # noqa: BLE001 - the reader hears of it
                everywhere.set_exception(error)
            else:
                everywhere.set_result(self._reads.ordered(found))

        self._then(here, on_found, everywhere)
        return everywhere

    def _ask_copies(self, request: StoreRequest, *, dirty: bool) -> StreamFuture[list[StoreEntry]]:
        """Return what this instance has, in its tasks and in its copies of others."""
        answer: StreamFuture[list[StoreEntry]] = StreamFuture(f"store {self.name}")

        def on_found(found: list[StoreEntry]) -> None:
            if found and request.kind == "get":
                answer.set_result(found)
                return
            copies = self._reads.read_copies(self.name, request)
            self._then(copies, lambda others: answer.set_result(self._reads.ordered([*others, *found])), answer)

        self._then(self._reads.read(self.name, request, dirty=dirty, none_assigned_ok=True), on_found, answer)
        return answer

    @staticmethod
    def _then(
        asked: StreamFuture[list[StoreEntry]], then: Callable[[list[StoreEntry]], None], else_: StreamFuture[Any]
    ) -> None:
        def on_done(_: object) -> None:
            error = asked.exception()
            if error is not None:
                else_.set_exception(error)
            else:
                then(asked.result())

        asked.add_done_callback(on_done)

    @property
    def lag(self) -> int:
        """Number of partitions of this instance whose state is still being restored; 0: everything that is committed can be read."""
        return self._reads.restoring
