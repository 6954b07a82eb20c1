"""`streamactors dead-letters`: records that could not be read, with their origin and the reason; and sending them again."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from streamactors.cli.bootstrap import admin_client, bootstrap_option, consumer_settings, producer_settings
from streamactors.cli.records.partition_records import records_from
from streamactors.cli.tables import json_option, print_json, print_table
from streamactors.cli.texts import as_text, as_time, json_field
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.kafka.dead_letters import StoredLetter
    from streamactors.kafka.record import ConsumerRecord

LOOKED_AT: Final = 20
"""Number of records at the end of each partition that the search for dead-letter topics reads."""

Place = tuple[int, int]
Found = tuple["ConsumerRecord", "StoredLetter"]


class NoSuchLetter(StreamActorsError):
    """The named record is no dead letter."""


class _PlaceType(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    name = "PARTITION@OFFSET"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        found = re.fullmatch(r"(\d+)@(\d+)", value)
        if found is None:
            self.fail(f"{value!r} is no PARTITION@OFFSET, such as 0@17; `dead-letters list` shows them", param, ctx)
        return int(found[1]), int(found[2])


PLACE = _PlaceType()


@click.group("dead-letters")
def command() -> None:
    """Look at the records that could not be read, and send them again.

    \b
    Example:
      streamactors dead-letters list orders-dead
    """


@command.command("list")
@bootstrap_option
@click.argument("topic", required=False)
@json_option
def list_letters(bootstrap: str, topic: str | None, as_json: bool) -> None:
    """List the dead letters of a topic, or, without one, the topics that hold some.

    \b
    Examples:
      streamactors dead-letters list
      streamactors dead-letters list orders-dead
    """
    if topic is None:
        rows = [(name, sum(1 for _ in _letters(bootstrap, name))) for name in _topics(bootstrap)]
        if as_json:
            print_json({"topic": name, "dead_letters": count} for name, count in rows)
        elif rows:
            print_table(("topic", "dead letters"), rows)
        else:
            click.echo(f"no dead letters at {bootstrap}")
        return
    letters = _letters(bootstrap, topic)
    if as_json:
        print_json(_whole(record, letter) for record, letter in letters)
        return
    shown = [
        (_place(record), as_time(record.timestamp), letter.source, letter.stage, letter.error)
        for record, letter in letters
    ]
    if shown:
        print_table(("letter", "stored", "source", "stage", "error"), shown)
    else:
        click.echo(f"no dead letters in {topic}")


@command.command("show")
@bootstrap_option
@click.argument("topic")
@click.argument("letter", type=PLACE, metavar="PARTITION@OFFSET")
@json_option
def show(bootstrap: str, topic: str, letter: Place, as_json: bool) -> None:
    """Show one dead letter whole: its record, its origin and the error.

    \b
    Example:
      streamactors dead-letters show orders-dead 0@17
    """
    record, found = _one(bootstrap, topic, letter)
    if as_json:
        print_json([_whole(record, found)])
        return
    lines = {
        "source": found.source,
        "stage": found.stage,
        "error": found.error,
        "attempts": str(found.attempts),
        **({} if found.due_ms is None else {"due": as_time(found.due_ms)}),
        "timestamp": as_time(found.timestamp_ms),
        "stored": as_time(record.timestamp),
        "key": as_text(found.key),
        **{f"header {name}": as_text(value) for name, value in found.headers},
        "value": as_text(found.value),
    }
    width = max(map(len, lines))
    for name, text in lines.items():
        click.echo(f"{name:<{width}}  {'' if text is None else text}".rstrip())


@command.command("replay")
@bootstrap_option
@click.argument("topic")
@click.argument("letters", nargs=-1, type=PLACE, metavar="[PARTITION@OFFSET]...")
@click.option("--to", "target", metavar="TOPIC", help="Send them there.  [default: each to where it came from]")
@click.option(
    "--group",
    metavar="GROUP",
    help="The consumer group that remembers what has been replayed.  [default: dead-letters-replay-TOPIC]",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be sent.")
def replay(
    bootstrap: str, topic: str, letters: tuple[Place, ...], target: str | None, group: str | None, dry_run: bool
) -> None:
    """Send dead letters again, with their own key, value, headers and timestamp: those named, or all that have not been replayed.

    A retry topic is refused: its records are tried again by themselves. What has been replayed is remembered by a consumer group, as soon as the broker has stored it; the letters stay in their topic.

    \b
    Examples:
      streamactors dead-letters replay orders-dead --dry-run
      streamactors dead-letters replay orders-dead 0@17 0@19 --to orders-by-hand
    """
    if any(letter.due_ms is not None for _, letter in itertools.islice(_letters(bootstrap, topic), 1)):
        raise NoSuchLetter(
            f"{topic} is a retry topic: its records are tried again by themselves when they are due; replay the topic of the dead letters"
        )
    if letters:
        chosen = [_one(bootstrap, topic, place)[1] for place in letters]
        sent = len(chosen) if dry_run else _send(bootstrap, chosen, target)
    else:
        sent = _replay_rest(bootstrap, topic, target, group or f"dead-letters-replay-{topic}", dry_run)
    click.echo(f"{sent} dead letter{'' if sent == 1 else 's'} {'would be sent' if dry_run else 'sent'}")


def _send(bootstrap: str, letters: list[StoredLetter], target: str | None) -> int:
    from streamactors.dsl.source import Source
    from streamactors.kafka.producer import Producer

    sink = Producer.plain_sink(producer_settings(bootstrap))
    Source.from_iterable(letters).map(lambda letter: letter.to_record(target)).run_with(sink).result()
    return len(letters)


def _replay_rest(bootstrap: str, topic: str, target: str | None, group: str, dry_run: bool) -> int:
    from streamactors.dsl.keep import Keep
    from streamactors.dsl.sink import Sink
    from streamactors.kafka.consumer import Consumer
    from streamactors.kafka.dead_letters import StoredLetter
    from streamactors.kafka.producer import Producer
    from streamactors.kafka.subscriptions import Subscriptions

    def letter_of(record: ConsumerRecord) -> StoredLetter | None:
        return StoredLetter.read(record.key, record.value, record.headers)

    settings = consumer_settings(bootstrap).with_group_id(group)
    make = Consumer.plain_source if dry_run else Consumer.source
    found = (
        make(settings, Subscriptions.topics(topic), until="end")
        .map(letter_of)
        .filter(lambda letter: letter is not None)
    )
    counting: Sink[Any, Any] = Sink.fold(0, lambda count, _: count + 1)
    if dry_run:
        count: int = found.run_with(counting).result()
        return count
    sink = Producer.plain_sink(producer_settings(bootstrap))
    graph = (
        found.map(lambda letter: letter.to_record(target))  # type: ignore[union-attr]  # filtered above
        .also_to_mat(counting, Keep.both)
        .to_mat(sink, Keep.both)
    )
    (control, counted), sent = graph.run()
    sent.result()
    control.is_shutdown.result()
    count = counted.result()
    return int(count)


def _letters(bootstrap: str, topic: str, only: Place | None = None, last: int | None = None) -> Iterator[Found]:
    """Yield each dead letter of a topic with its record. `only`: this letter alone, if it is there. `last`: only letters among
    the last `last` records of each partition."""
    from streamactors.kafka.dead_letters import StoredLetter
    from streamactors.kafka.subscriptions import TopicPartition

    there = {TopicPartition(topic, p.partition): p for p in admin_client(bootstrap).partitions(topic)}
    starts = {key: p.earliest if last is None else max(p.earliest, p.latest - last) for key, p in there.items()}
    if only is not None:
        key = TopicPartition(topic, only[0])
        partition = there.get(key)
        if partition is None or not partition.earliest <= only[1] < partition.latest:
            return
        starts = {key: only[1]}
    for batch in records_from(bootstrap, starts):
        for record in batch:
            if only is not None and (record.partition, record.offset) != only:
                return
            letter = StoredLetter.read(record.key, record.value, record.headers)
            if letter is not None:
                yield record, letter


def _topics(bootstrap: str) -> list[str]:
    """Return the topics among whose last records are dead letters."""
    names = [topic.name for topic in admin_client(bootstrap).topics() if not topic.name.startswith("__")]
    return [name for name in names if any(True for _ in _letters(bootstrap, name, last=LOOKED_AT))]


def _one(bootstrap: str, topic: str, place: Place) -> Found:
    for found in _letters(bootstrap, topic, place):
        return found
    raise NoSuchLetter(
        f"there is no dead letter at {topic} {place[0]}@{place[1]}; streamactors dead-letters list {topic} shows them"
    )


def _place(record: ConsumerRecord) -> str:
    return f"{record.partition}@{record.offset}"


def _whole(record: ConsumerRecord, letter: StoredLetter) -> dict[str, Any]:
    return {
        "letter": _place(record),
        "stored_ms": record.timestamp,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp_ms,
        "stage": letter.stage,
        "error": letter.error,
        "attempts": letter.attempts,
        "due_ms": letter.due_ms,
        **json_field("key", letter.key),
        **json_field("value", letter.value),
        "headers": [{"name": name, **json_field("value", value)} for name, value in letter.headers],
    }
