"""TopicEnd: a graph on executors with an end in a topic. Each task writes what the topic gets in one transaction, exactly once.

The state of the range's end is written before the transaction commits, and the transaction commits before Spark writes its commit log. So
after a crash at any moment the next attempt finds either nothing of the range in the topic, or all of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from streamactors.kafka.client.range_writer import RangeWriter
from streamactors.kafka.producer_record import checked_record
from streamactors.kafka.settings import ProducerSettings
from streamactors.spark.errors import CheckpointError
from streamactors.spark.executors.program import Output
from streamactors.spark.executors.ranges import At, Range, at_of

SCHEMA: Final = "partition int"
"""The rows that Spark gets of a task that writes all to topics: one for each record that the task wrote, so that Spark's progress counts records."""

MOST_WRITERS: Final = 64


@dataclass(frozen=True)
class TopicEnd:
    """What the tasks need to write. `group`: the group for which the positions of the input are committed with the output.

    `results`, `late`: whether these are written to a topic; otherwise Spark gets them. Dead letters always are."""

    settings: ProducerSettings
    group: str
    results: bool = True
    late: bool = True

    @property
    def takes_all(self) -> bool:
        """True if Spark gets no rows."""
        return self.results and self.late

    def sparks(self, what: Range, outputs: Iterable[Output], writers: Writers) -> Iterator[Output]:
        """Write the outputs that go to a topic, if that was not done before, and yield the others. It is committed at the end."""
        writer = writers.take(self, what)
        try:
            for output in outputs:
                if not output.diverted and not (self.late if output.late else self.results):
                    yield output
                elif writer is not None:
                    writer.write([checked_record(row) for row in output.rows])
            if writer is not None:
                writer.commit(what.end.position, str(what.end))
        except BaseException:  # GeneratorExit, too: a task that is left early writes nothing
            if writer is not None:
                writer.close()
            raise
        if writer is not None:
            writers.keep(self, what, writer)

    def write(self, what: Range, outputs: Iterable[Output], writers: Writers) -> int | None:
        """Write the outputs of a range; return the number of records. None if the range was written before: then no output is asked for."""
        writer = writers.take(self, what)
        if writer is None:
            return None
        records = 0
        try:
            for output in outputs:
                writer.write([checked_record(row) for row in output.rows])
                records += len(output.rows)
            writer.commit(what.end.position, str(what.end))
        except BaseException:
            writer.close()
            raise
        writers.keep(self, what, writer)
        return records

    def writer(self, what: Range) -> RangeWriter:
        """Return a new writer for the partition of a range."""
        name = f"{self.settings.transactional_id or self.group}-{what.key}"
        return RangeWriter(replace(self.settings, transactional_id=name), self.group, what.key)


def counted(what: Range, records: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range of which so many records were written."""
    if records:
        column = pa.repeat(pa.scalar(what.key.partition, schema.field(0).type), records)
        yield pa.RecordBatch.from_arrays([column], schema=schema)


class Writers:
    """The writers of this worker process; each is kept while its last commit is exactly where the next range starts.

    A worker outlives the runs of a query. The next run has the same group, so it takes over, or closes, what the run before it has left."""

    def __init__(self) -> None:
        self._writers: OrderedDict[tuple[str, ...], tuple[At, ProducerSettings, RangeWriter]] = OrderedDict()

    def take(self, end: TopicEnd, what: Range) -> RangeWriter | None:
        """Return a writer that may write the range; None if the range was written before. Raises CheckpointError."""
        kept = self._writers.pop(_name(end, what), None)
        if kept is not None:
            at, settings, writer = kept
            if at == what.start and settings == end.settings:
                return writer
            writer.close()
        writer = end.writer(what)
        try:
            must = must_write(writer.open(), what, end.group)
        except BaseException:
            writer.close()
            raise
        if must:
            return writer
        writer.close()
        return None

    def keep(self, end: TopicEnd, what: Range, writer: RangeWriter) -> None:
        """Keep a writer that has just committed the end of a range."""
        self._writers[_name(end, what)] = (what.end, end.settings, writer)
        if len(self._writers) > MOST_WRITERS:
            self._writers.popitem(last=False)[1][2].close()


def _name(end: TopicEnd, what: Range) -> tuple[str, ...]:
    return end.settings.bootstrap_servers, end.group, str(what.key)


def must_write(committed: tuple[int, str] | None, what: Range, group: str) -> bool:
    """Return whether a range is still to be written, given the position that is committed with the output.

    Raises CheckpointError if checkpoint and output do not fit: the range would be written in part, or twice."""
    if committed is None:
        if what.start == what.begin:
            return True
        raise CheckpointError(
            f"{what.key}: group {group} has no committed position, so it cannot be told whether the records before {what.start} were written: "
            "a run in one process has begun this batch, or the position has expired; run the graph there until the batch is written, or look "
            "at the output, then commit the position for that group or begin anew"
        )
    place = at_of(committed[1]) or At(committed[0])
    if place == what.start:
        return True
    if place >= what.end:
        return False
    raise CheckpointError(
        f"{what.key}: the output was written up to {place}, and Spark's checkpoint wants {what.start} to {what.end}: the checkpoint is not "
        f"the one that belongs to group {group}; restore it, or give the graph another group and another output"
    )
