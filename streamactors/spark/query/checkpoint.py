"""The checkpoint of a query: Spark's own logs, and beside them one small file that names the graph they belong to.

Spark's logs say what was written: offsets/N holds the range of batch N before the batch runs, commits/N exists when it has been written. Our file,
`streamactors.json`, holds the sources of the graph with their identities, the schema of the rows, and the positions where the first batch
began, which must not change when that batch is repeated. If the rows go to a table of files, it also holds the schema of that table. A graph with windows on executors has a second file, `streamactors-graph.json`, which
names the windows whose states lie in the checkpoint. On a local disk the folder is locked while a run uses it."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamactors.engine.marks.ownership import Positions
from streamactors.spark.errors import CheckpointError
from streamactors.spark.files import Files
from streamactors.spark.query.kept_windows import agree, in_words
from streamactors.spark.query.source_identity import SourceIdentity, difference, merged
from streamactors.spark.query.table_schema import QueryTable, changes, in_a_sentence, kept_schema, to_keep, together

OURS: Final = "streamactors.json"
LOCK: Final = "streamactors.lock"
GRAPH: Final = "streamactors-graph.json"
FORMAT_VERSION: Final = 2
LABELS_ONLY: Final = 1
"""The version of the file that kept only the labels of the sources."""

_log = logging.getLogger("streamactors.spark")


@dataclass(frozen=True)
class Kept:
    """What our file holds. `schema`: None in version 1. `table`: of the table that the query writes as files, if it writes one."""

    version: int
    sources: Sequence[SourceIdentity]
    schema: str | None
    initial: Positions | None
    table: Mapping[str, Any] | None = None


class Checkpoint:
    """The folder of a checkpoint. Opened by one run at a time; `close` releases it."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._folder = files.root
        self._lock_fd = -1
        self._sources: Sequence[SourceIdentity] = ()
        self._schema = ""
        self._initial: Positions | None = None
        self._table: Mapping[str, Any] | None = None

    def open(
        self,
        sources: Sequence[SourceIdentity],
        schema: str,
        windows: Mapping[str, Any] | None = None,
        table: QueryTable | None = None,
    ) -> None:
        """Lock and check it for a graph with these sources, whose rows have this schema. Raises CheckpointError in one sentence.

        `table`: the table of files that gets these rows, if they go to one.
        `windows`: of the windows whose states the checkpoint keeps, if it keeps any: the names of their "stores", their "application", and
        what the "windows" are (kept_windows.py)."""
        self._lock()
        try:
            self._check(sources, schema, table)
            self._check_windows(windows)
        except BaseException:
            self.close()
            raise

    def initial(self, find: Callable[[], Positions]) -> Positions:
        """Return where the first batch begins. `find` is called the first time; later runs get the same answer."""
        if self._initial is None:
            self._initial = found = dict(sorted(find().items()))
            self._write()
            return found
        return self._initial

    def close(self) -> None:
        """Release the lock. Idempotent."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _lock(self) -> None:
        local = self._files.local
        if local is None:
            return  # elsewhere Spark itself detects two writers of one offset log
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

    def _check(self, sources: Sequence[SourceIdentity], schema: str, table: QueryTable | None) -> None:
        files = self._files
        offsets, commits = _numbers(files.names("offsets")), _numbers(files.names("commits"))
        has_id = files.exists("metadata")
        kept = self._kept() if files.has(OURS) else None
        if kept is not None:
            if offsets and not has_id:
                raise self._damaged("metadata, which holds the query's id, is gone")
            self._compare(kept, sources)
            if offsets and kept.initial is None:
                raise self._damaged(f"{OURS} has lost the first positions")
        elif offsets or commits or has_id:
            raise CheckpointError(
                f"checkpoint {self._folder} was not written by this sink, or {OURS} was deleted from it; "
                "give this graph a checkpoint of its own, or delete the whole folder to begin anew"
            )
        self._check_logs(offsets, commits)
        if kept is not None and offsets and max(offsets) not in commits:
            self._check_schema(kept.schema, schema, max(offsets))
        self._table = self._checked_table(kept, table)
        if not offsets:
            self._clear_unfinished()
        self._keep(kept, sources, schema)

    def _compare(self, kept: Kept, sources: Sequence[SourceIdentity]) -> None:
        differs = difference(kept.sources, sources)
        if differs is not None:
            raise CheckpointError(
                f"checkpoint {self._folder} belongs to another graph: it was written for {differs[0]}, this graph reads {differs[1]}; "
                "give this graph a checkpoint of its own"
            )
        unknown = [f"the {name}" for source in sources for name in source.unknown]
        if unknown:
            _log.warning(
                "checkpoint %s: the brokers do not report %s, so the run cannot notice that it reads other data than the checkpoint was "
                "written for",
                self._folder,
                " or ".join(unknown),
            )

    def _check_windows(self, windows: Mapping[str, Any] | None) -> None:
        """Compare the windows of this graph with those that the checkpoint's states belong to. Raises CheckpointError naming both."""
        files = self._files
        mine = None if windows is None else {"version": 1, **windows}
        theirs = json.loads(files.read(GRAPH)) if files.has(GRAPH) else None
        if theirs is not None and (mine is None or not agree(theirs, mine)):
            raise CheckpointError(
                f"checkpoint {self._folder} has {in_words(theirs)}, and this graph has {in_words(mine)}; "
                "give this graph a checkpoint of its own"
            )
        if mine is None or mine == theirs:
            return
        if theirs is None and files.names("commits"):
            raise CheckpointError(
                f"checkpoint {self._folder} was written by a graph without windows, or {GRAPH} was deleted from it; "
                "give this graph a checkpoint of its own"
            )
        files.write(json.dumps(mine), GRAPH)

    def _check_logs(self, offsets: set[int], commits: set[int]) -> None:
        if commits and (not offsets or max(commits) not in offsets):
            raise self._damaged(f"offsets/{max(commits)} is gone, which commits/{max(commits)} needs")
        if offsets and max(offsets) > 0 and max(offsets) - 1 not in commits:
            raise self._damaged(f"commits/{max(offsets) - 1} is gone, which offsets/{max(offsets)} needs")
        if offsets and max(offsets) > 0 and max(offsets) - 1 not in offsets:
            raise self._damaged(f"offsets/{max(offsets) - 1} is gone, where batch {max(offsets)} begins")

    def _check_schema(self, kept: str | None, schema: str, batch: int) -> None:
        if kept is not None and kept != schema:
            raise CheckpointError(
                f"checkpoint {self._folder}: batch {batch} must be repeated with the schema it was begun with, {kept}, and this graph's schema "
                f"is {schema}; run the graph with the old schema until the batch is written, then change the schema"
            )

    def _checked_table(self, kept: Kept | None, table: QueryTable | None) -> Mapping[str, Any] | None:
        """Compare the schema with that of the files in the table; return what is kept of the table. Raises CheckpointError for a changed type."""
        known = None if kept is None else kept.table
        if table is None:
            return known
        theirs = kept_schema(known, None if kept is None else kept.schema, table)
        if theirs is None:
            return to_keep(table.schema, table)
        found = changes(theirs, table.schema)
        if found.retyped:
            raise CheckpointError(
                f"checkpoint {self._folder}: {in_a_sentence(found)} in the table {table.path}, and a table whose files differ in a type cannot be "
                "read; convert the column back, or give the graph a path and a checkpoint of its own"
            )
        if (found.added or found.removed) and (kept is None or kept.schema != table.schema.simpleString()):
            _log.warning(
                "checkpoint %s: %s, so the files of the table %s have different columns; read all of them with "
                'spark.read.option("mergeSchema", "true").parquet(…)',
                self._folder,
                in_a_sentence(found),
                table.path,
            )
        return to_keep(together(theirs, table.schema), table)

    def _keep(self, kept: Kept | None, sources: Sequence[SourceIdentity], schema: str) -> None:
        """Write our file, unless it holds all that already."""
        self._schema = schema
        if kept is None:
            self._sources = sources
            self._files.make()
            self._write()
            return
        self._initial = kept.initial
        self._sources = [merged(old, new) for old, new in zip(kept.sources, sources, strict=True)]
        if kept.version == LABELS_ONLY:
            known = [f"{name} {value}" for source in self._sources for name, value in source.identity.items() if value]
            _log.info(
                "checkpoint %s is of version %s, which kept only the names of the sources; it is taken over, and now keeps %s and the schema",
                self._folder,
                LABELS_ONLY,
                ", ".join(known) or "them",
            )
        elif kept.schema != schema:
            _log.info("checkpoint %s: the schema was %s and is now %s", self._folder, kept.schema, schema)
        if (kept.version, list(kept.sources), kept.schema, kept.table) != (
            FORMAT_VERSION,
            self._sources,
            schema,
            self._table,
        ):
            self._write()

    def _clear_unfinished(self) -> None:
        """Delete the temporary file that a crash in Spark's first write leaves; Spark would refuse the folder because of it."""
        for name in self._files.names("offsets"):
            if name.startswith("."):
                self._files.delete("offsets", name)

    def _kept(self) -> Kept:
        try:
            found = json.loads(self._files.read(OURS))
            version = found["version"]
            if version not in (LABELS_ONLY, FORMAT_VERSION):
                raise CheckpointError(
                    f"checkpoint {self._folder} has version {version} of {OURS}, this is {FORMAT_VERSION}"
                )
            schema = None if version == LABELS_ONLY else str(found["schema"])
            sources = [SourceIdentity.of_json(kept) for kept in found["sources"]]
            return Kept(version, sources, schema, found["initial"], found.get("table"))
        except (ValueError, KeyError, TypeError):
            raise self._damaged(f"{OURS} cannot be read") from None

    def _write(self) -> None:
        ours = {
            "version": FORMAT_VERSION,
            "sources": [source.as_json() for source in self._sources],
            "schema": self._schema,
            "initial": self._initial,
            **({} if self._table is None else {"table": self._table}),
        }
        try:
            self._files.write(json.dumps(ours, indent=1), OURS)
        except OSError as error:
            raise CheckpointError(f"checkpoint {self._folder} cannot be written: {error.strerror}") from None

    def _damaged(self, what: str) -> CheckpointError:
        return CheckpointError(
            f"checkpoint {self._folder} is incomplete: {what}; restore it from a copy, or delete the whole folder to begin anew "
            "(what was written before is then written again)"
        )


def _numbers(names: list[str]) -> set[int]:
    return {int(name) for name in names if name.isdigit()}
