"""The writing side of `streamactors-kafka`: each task writes its rows in one transaction, exactly once.

With the rows a task commits, in the same transaction, the number of its batch for a group of its own. A task that Spark repeats finds this
number and writes nothing. So a repeated batch must have the same rows in the same partitions, as Spark promises for deterministic queries.
The number is committed for the topic of the first row. Behind a shuffle a repeated task may get its rows in another order, so a task whose rows
name their topics looks for the number in all topics.

    stream   group and transactional id  QUERY-PARTITION   position: the batch's number + 1
    write    group and transactional id  WRITE-PARTITION   position: 1; the group is deleted when the write is complete"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from streamactors.errors import BuildError
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.range_writer import RangeWriter
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.settings import ClientSettings, ProducerSettings
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark.errors import SparkError
from streamactors.spark.kafka_format.bounds import FORMAT
from streamactors.spark.kafka_format.columns import check_columns, records_of
from streamactors.spark.kafka_format.options import write_options

_log = logging.getLogger("streamactors.spark")


@dataclass
class Written(WriterCommitMessage):
    """What a task has written. `group` is empty for a task without rows."""

    rows: int
    group: str


def write_settings(options: Mapping[str, str], columns: Sequence[str], *, overwrite: bool) -> None:
    """Raise BuildError for options or columns that a writer does not take."""
    _, _, topic = write_options(options)
    check_columns(columns, topic)
    if overwrite:
        raise BuildError(f'{FORMAT}: a topic cannot be overwritten; use mode("append")')


def name_of_write() -> str:
    """Return the name of a write; each write has another."""
    return f"{FORMAT}-{uuid.uuid4().hex}"


def write_batch_task(options: Mapping[str, str], name: str, batches: Iterator[Any]) -> Written:
    """Write what a task of a plain write has."""
    return _write(options, f"{name}-{_context().partitionId()}", 0, batches)


def write_stream_task(options: Mapping[str, str], batches: Iterator[Any]) -> Written:
    """Write what a task of a batch of a stream has."""
    context = _context()
    query, batch = context.getLocalProperty("sql.streaming.queryId"), context.getLocalProperty("streaming.sql.batchId")
    if not query or not batch:
        raise SparkError(
            f"{FORMAT}: Spark tells this task neither its query nor its batch, so it cannot write exactly once; use a sink of foreachBatch"
        )
    return _write(options, f"{FORMAT}-{query}-{context.partitionId()}", int(batch), batches)


def forget(options: Mapping[str, str], messages: Sequence[Any]) -> None:
    """A plain write is complete: delete the groups of its tasks."""
    servers, properties, _ = write_options(options)
    groups = [message.group for message in messages if message is not None and message.group]
    with Admin(ClientSettings(servers, properties=properties)) as admin:
        for group in groups:
            try:
                admin.delete_group(group)
            except KafkaError as error:  # the records are written; the group expires by itself
                _log.info("group %s was not deleted: %s", group, error)


def _write(options: Mapping[str, str], name: str, batch: int, batches: Iterator[Any]) -> Written:
    servers, properties, topic = write_options(options)
    writer: RangeWriter | None = None
    rows = 0
    try:
        for each in batches:
            records = records_of(each, topic)
            if not records:
                continue
            if writer is None:
                settings = ProducerSettings(servers, transactional_id=name, properties=properties)
                writer = RangeWriter(settings, name, TopicPartition(records[0].topic, 0))
                done = writer.open()
                reached = writer.furthest() if topic is None else -1 if done is None else done[0]
                if reached > batch:
                    for _ in batches:
                        pass  # Spark expects that a task takes its rows
                    return Written(0, name)
            writer.write(records)
            rows += len(records)
        if writer is not None:
            writer.commit(batch + 1, "")
        return Written(rows, name if writer is not None else "")
    finally:
        if writer is not None:
            writer.close()


def _context() -> Any:
    context = TaskContext.get()
    if context is None:
        raise SparkError(f"{FORMAT}: a writer runs in a task of Spark only")
    return context
