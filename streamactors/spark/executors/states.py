"""States of tasks as files, named by place: PART/<place>.d holds what changed since its parent, <place>.s the whole state.

A file is written beside its name, flushed to the disk and renamed, so a reader sees a whole file or none; the rename is the commit, and a
task that runs again writes the same file. Object stores have no rename: there one put is the commit. The entries are those of changelogs
(`windows/state/store_log.py`), in the codec that never unpickles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from streamactors.codec import CodecError, dumps, loads
from streamactors.spark.errors import CheckpointError
from streamactors.spark.executors.folders import Folder
from streamactors.spark.executors.ranges import At, at_of
from streamactors.windows.state.store_log import Change

FORMAT: Final = 1
BEGIN: Final = "begin"
"""This file exists if the state of a task was carried to where its query begins."""
MOST_DELTAS: Final = 10
"""A restore reads at most so many files."""

Entries = dict[tuple[str, bytes], bytes]


class State(NamedTuple):
    """The whole state of a task: its entries, how many deltas its file builds on, and the bytes of these."""

    entries: Entries
    deltas: int
    delta_bytes: int
    snapshot_bytes: int


def fresh() -> State:
    """Return the state of a task that has seen nothing."""
    return State({}, 0, 0, 0)


class States:
    """The states below one folder. Any number of processes may read and write; the files of one place mean the same state."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def write(
        self, partition: str, parent: At, at: At, changes: Iterable[Change], state: State, due_ms: int | None = None
    ) -> State:
        """Write the state at a place, given that at its parent and the changes since; return it. Changes `state.entries` in place.

        `due_ms`: the silence after which the task has a result to give; None: it holds nothing that silence closes."""
        entries = state.entries
        listed = []
        for change in changes:
            listed.append([*change])
            if change.value is None:
                entries.pop((change.store, change.key), None)
            else:
                entries[change.store, change.key] = change.value
        data = dumps([FORMAT, str(parent), listed, due_ms])
        first = not state.snapshot_bytes and not state.deltas
        if (
            first
            or state.deltas + 1 >= MOST_DELTAS
            or state.delta_bytes + len(data) > state.snapshot_bytes + (64 << 10)
        ):
            whole = dumps([FORMAT, None, [[store, key, value] for (store, key), value in entries.items()], due_ms])
            self._folder.put(f"{partition}/{at}.s", whole)
            return State(entries, 0, 0, len(whole))
        self._folder.put(f"{partition}/{at}.d", data)
        return State(entries, state.deltas + 1, state.delta_bytes + len(data), state.snapshot_bytes)

    def begin_with(self, partition: str, at: At) -> None:
        """Note that the task begins with the state at `at`. Without this note a task at its first offset begins empty."""
        self._folder.put(f"{partition}/{BEGIN}", str(at).encode())

    def begins_empty(self, partition: str) -> bool:
        """Return whether the task begins without a state."""
        return self._folder.get(f"{partition}/{BEGIN}") is None

    def load(self, partition: str, at: At) -> State | None:
        """Return the state at a place; None if a file of it is missing. Raises CheckpointError for a file that is not ours."""
        deltas: list[list[Any]] = []
        size = 0
        here = str(at)
        while True:
            whole = self._folder.get(f"{partition}/{here}.s")
            if whole is not None:
                entries: Entries = {(store, key): value for store, key, value in self._read(partition, here, whole)[1]}
                break
            delta = self._folder.get(f"{partition}/{here}.d")
            if delta is None:
                return None
            parent, changes, _ = self._read(partition, here, delta)
            deltas.append(changes)
            size += len(delta)
            here = parent
        for changes in reversed(deltas):
            for store, key, value in changes:
                if value is None:
                    entries.pop((store, key), None)
                else:
                    entries[store, key] = value
        return State(entries, len(deltas), size, len(whole))

    def has(self, partition: str, at: At) -> bool:
        """Return whether the state at a place was written."""
        return not {f"{at}.s", f"{at}.d"}.isdisjoint(self._folder.names(partition))

    def due_ms(self, partition: str, at: At) -> int | None:
        """Return the `due_ms` of the state at a place; None also where there is no state."""
        for kind in "sd":
            data = self._folder.get(f"{partition}/{at}.{kind}")
            if data is not None:
                due: int | None = self._read(partition, str(at), data)[2]
                return due
        return None

    def before(self, partition: str, at: At) -> Iterator[At]:
        """Yield the places before `at` that have a file, the latest first."""
        yield from sorted((each for each in self._places(partition) if each < at), reverse=True)

    def collect(self, keep: Mapping[str, Iterable[At]]) -> int:
        """Delete what no state of `keep` (partition -> places) needs and lies before all of them; return the number of files deleted."""
        deleted = 0
        for partition, wanted in keep.items():
            self._folder.tidy(partition)
            needed: set[str] = set()
            oldest = None
            for at in wanted:
                chain = list(self._chain(partition, str(at)))
                if not chain:
                    oldest = At(-1)  # it is missing, and will be computed from an older one
                    break
                needed.update(chain)
                oldest = min(at, oldest) if oldest is not None else at
            for name in self._folder.names(partition):
                place = at_of(name.rpartition(".")[0])
                if place is not None and oldest is not None and place < oldest and name not in needed:
                    self._folder.delete(f"{partition}/{name}")
                    deleted += 1
        return deleted

    def _chain(self, partition: str, here: str) -> Iterator[str]:
        names = set(self._folder.names(partition))
        while True:
            if f"{here}.s" in names:
                yield f"{here}.s"
                return
            if f"{here}.d" not in names:
                return
            yield f"{here}.d"
            delta = self._folder.get(f"{partition}/{here}.d")
            if delta is None:
                return
            here = self._read(partition, here, delta)[0]

    def _places(self, partition: str) -> set[At]:
        found = (at_of(name.rpartition(".")[0]) for name in self._folder.names(partition))
        return {at for at in found if at is not None}

    def _read(self, partition: str, name: str, data: bytes) -> tuple[str, list[Any], int | None]:
        try:
            version, parent, items, due_ms = loads(data)
        except (CodecError, ValueError, TypeError):
            raise CheckpointError(
                f"state {self._folder}/{partition}/{name} cannot be read; delete that file: it is computed from the topic again"
            ) from None
        if version != FORMAT:
            raise CheckpointError(
                f"state {self._folder}/{partition}/{name} has format {version}, this version reads {FORMAT}; "
                "use the version that wrote it, or delete the folder of states"
            )
        return parent, items, due_ms
