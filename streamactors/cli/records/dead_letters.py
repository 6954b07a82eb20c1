"""`streamactors dead-letters`: records that could not be read, with their origin and the reason; and sending them again."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from streamactors.cli.bootstrap import bootstrap_option, client_settings, consumer_settings, producer_settings
from streamactors.cli.progress import Count, progress
from streamactors.cli.tables import json_option, print_json, print_table
from streamactors.cli.texts import as_text, as_time, json_field
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.kafka.dead_letters import StoredLetter
    from streamactors.kafka.record import ConsumerRecord
    from streamactors.kafka.round_trips.stored_letters import Found, Place, StoredLetters


class NotSent(StreamActorsError):
    """Some of the letters could not be sent."""


class _PlaceType(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    name = "PARTITION@OFFSET"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        found = re.fullmatch(r"(\d+)@(\d+)", value)
        if found is None:
            self.fail(f"{value!r} is not a PARTITION@OFFSET, such as 0@17; `dead-letters list` shows them", param, ctx)
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
    stored = _stored(bootstrap)
    if topic is None:
        with progress("look for dead letters", quiet=as_json):
            rows = [(name, sum(1 for _ in stored.letters(name))) for name in stored.topics()]
        if as_json:
            print_json({"topic": name, "dead_letters": count} for name, count in rows)
        elif rows:
            print_table(("topic", "dead letters"), rows)
        else:
            click.echo(f"no dead letters at {bootstrap}")
        return
    if as_json:
        print_json(_whole(record, letter) for record, letter in stored.letters(topic))
        return
    shown = []
    with progress(f"read {topic}", unit="dead letters") as bar:
        for record, letter in stored.letters(topic):
            bar.add()
            shown.append((_place(record), as_time(record.timestamp), letter.source, letter.stage, letter.error))
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
    ((record, found),) = _stored(bootstrap).at(topic, [letter])
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
@click.option("--dry-run", is_flag=True, help="Only print what would be sent.")
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
    from streamactors.kafka.round_trips.stored_letters import refuse_retries

    stored = _stored(bootstrap)
    refuse_retries(topic, itertools.islice(stored.letters(topic), 1))
    with progress(f"replay {topic}", len(letters) or None, "dead letters") as bar:
        if letters:
            chosen = stored.at(topic, letters)
            sent = len(chosen) if dry_run else _send(bootstrap, chosen, target, bar)
        else:
            group = group or f"dead-letters-replay-{topic}"
            writing = producer_settings(bootstrap)
            sent = stored.replay_rest(topic, writing, target, group, dry_run=dry_run, read=bar.add)
    click.echo(f"{sent} dead letter{'' if sent == 1 else 's'} {'would be sent' if dry_run else 'sent'}")


def _send(bootstrap: str, chosen: list[Found], target: str | None, bar: Count) -> int:
    from streamactors.kafka.round_trips.stored_letters import send_again

    def letters() -> Iterator[StoredLetter]:
        for _, letter in chosen:
            yield letter
            bar.add()

    results = send_again(producer_settings(bootstrap), letters(), target)
    failed = [
        f"{_place(record)}: {sent.error}"
        for (record, _), sent in zip(chosen, results, strict=True)
        if sent.error is not None
    ]
    if failed:
        raise NotSent(f"{len(failed)} of {len(chosen)} dead letters not sent; {failed[0]}")
    return len(chosen)


def _stored(bootstrap: str) -> StoredLetters:
    from streamactors.kafka.round_trips.stored_letters import StoredLetters  # librdkafka: when a broker is asked

    return StoredLetters(client_settings(bootstrap), consumer_settings(bootstrap))


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
