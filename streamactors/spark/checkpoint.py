"""The checkpoint of a query: Spark's own logs, and beside them one small file that says whose they are.

Spark keeps the truth here: offsets/N names the range of batch N before it runs, commits/N is there when it has been written. Our file,
`streamactors.json`, holds the sources of the graph and the positions where the first batch began, which must not change when that
batch is repeated. On a local disk the folder is locked while a run uses it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from typing import Any, Final

from streamactors.spark.batch_state import Positions
from streamactors.spark.errors import CheckpointError
from streamactors.spark.files import Files

OURS: Final = "streamactors.json"
LOCK: Final = "streamactors.lock"
FORMAT_VERSION: Final = 1


class Checkpoint:
    """See the module. Opened by one run at a time; `close` releases it."""

    def __init__(self, spark: Any, folder: str) -> None:
        self._files = Files(spark, folder)
        self._folder = folder
        self._lock_fd = -1
        self._sources: list[str] = []
        self._initial: Positions | None = None

    def open(self, sources: list[str]) -> None:
        """Lock and check it for a graph with these sources. Raises CheckpointError in one sentence."""
        self._lock()
        try:
            self._check(sources)
        except BaseException:
            self.close()
            raise

    def initial(self, find: Callable[[], Positions]) -> Positions:
        """Return where the first batch begins: as it was found the first time."""
        if self._initial is None:
            self._initial = found = dict(sorted(find().items()))
            self._write()
            return found
        return self._initial

    def close(self) -> None:
        """Let others use it. Idempotent."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _lock(self) -> None:
        local = self._files.local
        if local is None:
            return  # Spark itself notices two writers of one offset log
        try:
            os.makedirs(local, exist_ok=True)
            fd = os.open(os.path.join(local, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CheckpointError(f"checkpoint {self._folder}: {error.strerror} ({error.filename})") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise CheckpointError(
                f"checkpoint {self._folder} is in use by another query; each query needs a checkpoint of its own"
            ) from None
        self._lock_fd = fd

    def _check(self, sources: list[str]) -> None:
        files = self._files
        offsets, commits = _numbers(files.names("offsets")), _numbers(files.names("commits"))
        has_id = files.exists("metadata")
        if files.has(OURS):
            ours = self._ours()
            if offsets and not has_id:
                raise self._damaged("metadata, which holds the query's id, is gone")
            if ours["sources"] != sources:
                raise CheckpointError(
                    f"checkpoint {self._folder} belongs to another graph: it was written for {_list(ours['sources'])}, "
                    f"this graph reads {_list(sources)}; give this graph a checkpoint of its own"
                )
            self._initial = ours["initial"]
            if offsets and self._initial is None:
                raise self._damaged(f"{OURS} has lost the first positions")
        elif offsets or commits or has_id:
            raise CheckpointError(
                f"checkpoint {self._folder} was not written by this sink, or {OURS} was deleted from it; "
                "give this graph a checkpoint of its own, or delete the whole folder to begin anew"
            )
        if commits and (not offsets or max(commits) not in offsets):
            raise self._damaged(f"offsets/{max(commits)} is gone, which commits/{max(commits)} needs")
        if offsets and max(offsets) > 0 and max(offsets) - 1 not in commits:
            raise self._damaged(f"commits/{max(offsets) - 1} is gone, which offsets/{max(offsets)} needs")
        if offsets and max(offsets) > 0 and max(offsets) - 1 not in offsets:
            raise self._damaged(f"offsets/{max(offsets) - 1} is gone, where batch {max(offsets)} begins")
        if not offsets:
            self._clear_unfinished()
        self._sources = sources
        if not files.has(OURS):
            files.make()
            self._write()

    def _clear_unfinished(self) -> None:
        """A crash within Spark's very first write leaves a nameless file, for which Spark would refuse the folder."""
        for name in self._files.names("offsets"):
            if name.startswith("."):
                self._files.delete("offsets", name)

    def _ours(self) -> dict[str, Any]:
        try:
            found = json.loads(self._files.read(OURS))
            if found["version"] != FORMAT_VERSION:
                raise CheckpointError(
                    f"checkpoint {self._folder} has version {found['version']} of {OURS}, this is {FORMAT_VERSION}"
                )
            return {"sources": list(found["sources"]), "initial": found["initial"]}
        except (ValueError, KeyError, TypeError):
            raise self._damaged(f"{OURS} cannot be read") from None

    def _write(self) -> None:
        ours = {"version": FORMAT_VERSION, "sources": self._sources, "initial": self._initial}
        try:
            self._files.write(json.dumps(ours, indent=1), OURS)
        except OSError as error:
            raise CheckpointError(f"checkpoint {self._folder} cannot be written: {error.strerror}") from None

    def _damaged(self, what: str) -> CheckpointError:
        return CheckpointError(
            f"checkpoint {self._folder} is not whole: {what}; restore it from a copy, or delete the whole folder to begin anew "
            "(what was written before is then written again)"
        )


def _numbers(names: list[str]) -> set[int]:
    return {int(name) for name in names if name.isdigit()}


def _list(sources: list[str]) -> str:
    return " and ".join(sources) or "nothing"
