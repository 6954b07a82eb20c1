"""Reading the stores of a running stage from outside: one request to all tasks of the stage, answered on its island, without locks.

Committed reads look at a state between two cuts only when nothing has changed since the last commit. Otherwise the request waits for the next
cut: it is answered from the state that the cut writes, when the cut is committed. So a reader never gets a value that a crash could undo."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from streamactors.actors.futures import StreamFuture
from streamactors.codec import CodecError
from streamactors.engine.island.run import Run
from streamactors.errors import StoreNotReady, UnknownStore
from streamactors.windows.stage.stage_events import ReadAsked
from streamactors.windows.state.key_order import KeyPlaces, between
from streamactors.windows.state.reads import KINDS, ShownEntries, StoreEntry, StoreRequest
from streamactors.windows.state.serdes import Serdes
from streamactors.windows.values import snapshot

if TYPE_CHECKING:
    from streamactors.windows.stage.window_logic import WindowLogic
    from streamactors.windows.topology.window_task import WindowTask


class ReadableCopy(Protocol):
    """A standby copy of another instance's task as its readers see it."""

    @property
    def task(self) -> WindowTask: ...
    @property
    def partition(self) -> int: ...
    @property
    def lag(self) -> int: ...


Copies = Sequence[ReadableCopy]
T = TypeVar("T")


class StageReads:
    """The requests to one stage. `read` may be called from any thread, everything else on the island."""

    def __init__(self, stage: WindowLogic, stores: frozenset[str], serdes: Serdes) -> None:
        """`stores`: the names of the stage's stores and of their steps. `serdes`: the bytes of the keys."""
        self._stage = stage
        self.stores: Final = stores
        self._serdes = serdes
        self._on_read = stage.async_callback(self._read)
        self._lock = threading.Lock()
        self._open: set[StreamFuture[Any]] = set()
        self._closed = False
        self._waiting: list[Callable[[], Callable[[], None]]] = []  # for a state that a stop writes
        self._answers: list[Callable[[], None]] = []  # found in a state that is being committed

    def read(
        self,
        store: str,
        request: StoreRequest,
        *,
        dirty: bool,
        none_assigned_ok: bool = False,
        most: int | None = None,
    ) -> StreamFuture[list[StoreEntry]]:
        """Return the entries that a request finds in a store, in order; with `most` not more than that, any of them. The future fails with UnknownStore if the run ends, if no partition
        is assigned here, unless `none_assigned_ok`, or if what is asked for may be in a state that is still being restored."""
        answer: StreamFuture[list[StoreEntry]] = StreamFuture("store")
        with self._lock:
            closed = self._closed
            self._open.add(answer)
        if closed:
            self._fail(answer, _ended(store))
        else:
            self._on_read.invoke((store, request, dirty, none_assigned_ok, most, answer))
        return answer

    def read_copies(self, store: str, request: StoreRequest) -> StreamFuture[list[StoreEntry]]:
        """Return the entries that a request finds in the standby copies of other instances' tasks. The future fails with UnknownStore if this
        instance keeps none, or if the run ends."""
        serdes = self._serdes
        return self._of_copies(
            store, lambda copies: in_order(Reading(store, request, serdes)(copy.task for copy in copies), serdes)
        )

    def lag_of_copies(self, store: str) -> StreamFuture[dict[int, int]]:
        """Return the lag of each standby copy by partition number, the largest where several stores' tasks have one number. Fails as `read_copies`."""

        def lags(copies: Copies) -> dict[int, int]:
            found: dict[int, int] = {}
            for copy in copies:
                found[copy.partition] = max(copy.lag, found.get(copy.partition, 0))
            return found

        return self._of_copies(store, lags)

    def _of_copies(self, store: str, answer_of: Callable[[Copies], T]) -> StreamFuture[T]:
        answer: StreamFuture[T] = StreamFuture("store")
        with self._lock:
            closed = self._closed
            self._open.add(answer)
        if closed:
            self._fail(answer, _ended(store))
            return answer

        def read(copies: Copies | None) -> None:
            try:
                if copies is None:
                    raise UnknownStore(
                        f"store {store}: this instance keeps no copies of others; give it State.on_disk(…, standbys=1), or ask without stale"
                    )
                found = answer_of(copies)
            except Exception as error:  # noqa: BLE001 - the reader hears of it
                self._fail(answer, error)
            else:
                self._answer(answer, found)

        keeper = self._stage.keeper
        if keeper is None:
            read(None)
        else:
            keeper.read_copies(read)
        return answer

    def ordered(self, entries: Iterable[StoreEntry]) -> list[StoreEntry]:
        """Return entries of several instances in order, each once."""
        return in_order(entries, self._serdes)

    @property
    def ended(self) -> bool:
        """True if the run has ended."""
        return self._closed

    @property
    def restoring(self) -> int:
        """Number of partitions whose state is being restored."""
        return len(self._stage.state.restores.reading)

    def _read(self, asked: tuple[str, StoreRequest, bool, bool, int | None, StreamFuture[list[StoreEntry]]]) -> None:
        store, request, dirty, none_assigned_ok, most, answer = asked

        def read() -> Callable[[], None]:
            try:
                tasks = list(self._stage.tasks.tasks.values())
                if not tasks and not none_assigned_ok:
                    raise StoreNotReady(
                        f"store {store}: no partition is assigned to this instance, or its state is being restored; ask again, or another one"
                    )
                found = in_order(islice(Reading(store, request, self._serdes)(tasks), most), self._serdes)
                restoring = self.restoring
                if restoring and not (found and request.kind == "get"):
                    raise StoreNotReady(
                        f"store {store}: the state of {restoring} partitions is still being restored here; ask again in a moment"
                    )
            except Exception as error:  # noqa: BLE001 - the reader hears of it
                return partial(self._fail, answer, error)
            return partial(self._answer, answer, found)

        if dirty:
            read()()
        else:
            self._waiting.append(read)
            self._stage.step(ReadAsked())

    def look_up(self) -> None:
        """Look up the requests of waiting readers in the current state."""
        waiting, self._waiting = self._waiting, []
        self._answers += [read() for read in waiting]

    def answer(self) -> None:
        """The state of the last `look_up` is committed: answer its readers."""
        answers, self._answers = self._answers, []
        for answer in answers:
            answer()

    def _answer(self, answer: StreamFuture[T], found: T) -> None:
        if self._forget(answer):
            answer.set_result(found)

    def _fail(self, answer: StreamFuture[Any], error: Exception) -> None:
        if self._forget(answer):
            answer.set_exception(error)

    def _forget(self, answer: StreamFuture[Any]) -> bool:
        """False if it was answered before."""
        with self._lock:
            if answer in self._open:
                self._open.discard(answer)
                return True
            return False

    def close(self) -> None:
        """The stage has stopped: unanswered requests fail."""
        with self._lock:
            self._closed = True
            left = list(self._open)
        for answer in left:
            self._fail(answer, _ended("that was asked for"))


def _ended(store: str) -> StoreNotReady:
    return StoreNotReady(f"the store {store} is gone: its run has ended; ask another instance, or the next run")


class Peers(Protocol):
    """The other instances of the application."""

    def ask(self, store: str, request: StoreRequest, *, dirty: bool) -> list[StoreEntry]:
        """Return what the other instances have; waits for their answers. Raises UnknownStore."""


class RunStores:
    """The stages of a run whose stores can be read; filled while the run is built."""

    def __init__(self) -> None:
        self.stages: list[StageReads] = []
        self.peers: Peers | None = None
        """The other instances, if this one advertises its stores."""

    @property
    def names(self) -> list[str]:
        """The names of all stores and of their steps."""
        return sorted({name for stage in self.stages for name in stage.stores})

    def stage_of(self, store: str) -> StageReads:
        """Return the stage that has a store. Raises UnknownStore."""
        for stage in self.stages:
            if store in stage.stores:
                return stage
        raise UnknownStore(
            f"no store {store!r} in this run; there are {self.names}: give the step its name, for example count(name={store!r})"
        )


def stores_of(run: Run) -> RunStores:
    """Return the stores of a run."""
    return run.shared(RunStores, RunStores)


class Reading:
    """Carries out a request on the tasks of a stage."""

    def __init__(self, store: str, request: StoreRequest, serdes: Serdes) -> None:
        if request.kind not in KINDS:
            raise UnknownStore(f"a store is asked for {request.kind!r}; ask for one of {', '.join(KINDS)}")
        self._store = store
        self._request = request
        self._places = KeyPlaces(serdes)
        try:
            self._low = None if request.key is None else self._places.of(request.key)
            self._high = None if request.last is None else self._places.of(request.last)
        except CodecError as error:
            raise UnknownStore(f"store {store!r}: {error}") from error

    def __call__(self, tasks: Iterable[WindowTask]) -> Iterator[StoreEntry]:
        for task in tasks:
            yield from self._wanted(task.entries(self._store, self._request) or ())

    def _wanted(self, entries: Iterable[StoreEntry]) -> Iterator[StoreEntry]:
        request, low, high = self._request, self._low, self._high
        prefix = b"" if low is None else low[2]
        for entry in entries:
            at = self._places.of(entry.key)
            if request.kind == "prefix":
                wanted = at[2].startswith(prefix)
            elif request.kind == "range":
                wanted = between(at, low, high)
            else:
                wanted = low is not None and at[2] == prefix
                if request.kind == "windows":
                    start = entry.start or 0
                    wanted = wanted and (request.first_ms is None or request.first_ms <= start)
                    wanted = wanted and (request.last_ms is None or start <= request.last_ms)
            if wanted:
                yield entry._replace(key=snapshot(entry.key), value=snapshot(entry.value))


def in_order(entries: Iterable[StoreEntry], serdes: Serdes) -> list[StoreEntry]:
    """Return entries by key, then by window; equal keys and windows once."""
    return ShownEntries(KeyPlaces(serdes).in_order(entries))
