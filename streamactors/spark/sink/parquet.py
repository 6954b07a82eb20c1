"""Batches as Parquet, exactly once: one folder per (query, epoch), replaced when the batch is repeated.

    path/query_id=<id>/epoch_id=<n>/[partition columns]/part-….parquet

A batch is written beside the table and renamed into it when it is whole, so a reader never sees a part of it, and a JVM that outlives its
driver never changes the table. Spark, pandas and pyarrow ignore names that begin with an underscore."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.spark.errors import CheckpointError
from streamactors.spark.files import Files
from streamactors.spark.query.table_schema import changes, in_a_sentence

STAGING: Final = "_staging"
QUERY, EPOCH = "query_id", "epoch_id"

Transform = Callable[[Any, int], Any]


def check_names(what: str, names: Sequence[str]) -> None:
    """Raise BuildError for a column that the names of the folders would hide from every reader; Spark compares names in any case."""
    for name in names:
        if name.lower() in (QUERY, EPOCH):
            raise BuildError(
                f"{what}: column {name!r} has the name of one of the table's own columns, {QUERY} and {EPOCH}, which readers get in its place; "
                "give it another name"
            )


def transformed(sink: str, transform: Transform | None, frame: Any, epoch: int) -> Any:
    """Return the DataFrame to write. Raises BuildError if `transform` returns none."""
    if transform is None:
        return frame
    out = transform(frame, epoch)
    if not hasattr(out, "write"):
        raise BuildError(
            f"{sink}: transform must return the DataFrame to write, and returned {shortened(out, 60)} for batch {epoch}; "
            "a function that writes by itself belongs to SparkSink.foreach_batch"
        )
    return out


class ParquetWriter:
    """Writes batches to `path`. The names of the folders say which batches are there."""

    def __init__(self, spark: Any, path: str, transform: Transform | None, partition_by: Sequence[str]) -> None:
        self._spark = spark
        self._path = path
        self._transform = transform
        self._partition_by = tuple(partition_by)
        self._is_compared = False

    def __call__(self, frame: Any, epoch: int, query_id: str) -> None:
        """Write one batch."""
        files = Files(self._spark, self._path)
        whole = (f"{QUERY}={query_id}", f"{EPOCH}={epoch}")
        part = (STAGING, query_id)
        fresh = (*part, f"{epoch}-{uuid.uuid4().hex}")
        files.delete(*part)  # left by a crash; a query has one batch at a time
        out = transformed("SparkSink.parquet", self._transform, frame, epoch)
        if out is not frame:
            check_names("SparkSink.parquet: the DataFrame that transform returned", out.columns)
            self._compare(files, whole[0], epoch, out.schema)
        writer = out.write.mode("error")
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.parquet(str(files.at(*fresh).toString()))
        files.delete(*whole)
        files.make(whole[0])
        files.rename(fresh, whole)
        files.delete(*part)

    def _compare(self, files: Files, folder: str, epoch: int, schema: Any) -> None:
        """Compare what `transform` has returned with the query's last batch before, once in a run. Raises CheckpointError for a changed type."""
        if self._is_compared:
            return
        self._is_compared = True
        earlier = [int(name.removeprefix(f"{EPOCH}=")) for name in files.names(folder) if name.startswith(f"{EPOCH}=")]
        last = max((each for each in earlier if each < epoch), default=None)
        if last is None:
            return
        before = self._spark.read.parquet(str(files.at(folder, f"{EPOCH}={last}").toString())).schema
        found = changes(before, schema)
        retyped = tuple(each for each in found.retyped if each[0] not in {name.lower() for name in self._partition_by})
        if retyped:
            raise CheckpointError(
                f"SparkSink.parquet: transform: {in_a_sentence(replace(found, retyped=retyped))} in batch {last} of the table {self._path}, and a "
                "table whose files differ in a type cannot be read; convert the column back, or give the graph a path and a checkpoint of its own"
            )
