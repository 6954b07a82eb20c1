"""`streamactors topics`: list, create, describe, alter and delete topics, and see their offsets."""

from __future__ import annotations

import click

from streamactors.cli.bootstrap import admin_client, bootstrap_option
from streamactors.cli.tables import NONE, json_option, print_json, print_table

MOST_PARTITIONS = 100_000  # that librdkafka asks for
MOST_REPLICAS = 32_767  # that the protocol can say


def _settings(texts: tuple[str, ...], option: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{option} {text}: its form is key=value, as in retention.ms=60000")
        settings[name.strip()] = value.strip()
    return settings


@click.group("topics")
def command() -> None:
    """List, create, describe, alter and delete topics.

    \b
    Examples:
      streamactors topics list
      streamactors topics create flights --partitions 3
    """


@command.command("list")
@bootstrap_option
@click.option("--internal", is_flag=True, help="Also topics whose names begin with two underscores.")
@json_option
def list_topics(bootstrap: str, internal: bool, as_json: bool) -> None:
    """List the topics with their partitions and replicas.

    \b
    Example:
      streamactors topics list --json
    """
    topics = [topic for topic in admin_client(bootstrap).topics() if internal or not topic.name.startswith("__")]
    if as_json:
        print_json(topic._asdict() for topic in topics)
    elif topics:
        print_table(("topic", "partitions", "replicas"), topics)
    else:
        click.echo(f"no topics at {bootstrap}")


@command.command("create")
@bootstrap_option
@click.argument("topic")
@click.option(
    "--partitions", "-p", type=click.IntRange(1, MOST_PARTITIONS), help="Number of partitions.  [default: the broker's]"
)
@click.option(
    "--replicas", "-r", type=click.IntRange(1, MOST_REPLICAS), help="Number of replicas.  [default: the broker's]"
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting; may be given several times.")
@click.option("--if-not-exists", is_flag=True, help="A topic that exists is left as it is, and is no error.")
def create(
    bootstrap: str,
    topic: str,
    partitions: int | None,
    replicas: int | None,
    settings: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Create a topic.

    \b
    Examples:
      streamactors topics create flights --partitions 3 --set retention.ms=86400000
      streamactors topics create flights --partitions 3 --if-not-exists
    """
    admin = admin_client(bootstrap)
    wanted = _settings(settings, "--set")
    if if_not_exists and any(found.name == topic for found in admin.topics()):
        click.echo(f"topic {topic} exists")
        return
    admin.create(topic, partitions or -1, replicas or -1, wanted, exist_ok=if_not_exists)
    click.echo(f"topic {topic} created")


@command.command("describe")
@bootstrap_option
@click.argument("topic")
@json_option
def describe(bootstrap: str, topic: str, as_json: bool) -> None:
    """Show a topic's partitions with leader, first offset and end, and the settings that the topic overrides. A partition
    without leader has "none" there, and "-" for its offsets (null with --json).

    \b
    Example:
      streamactors topics describe flights
    """
    detail = admin_client(bootstrap).describe(topic)
    if as_json:
        print_json(
            {**p._asdict(), **{name: None for name in ("leader", "earliest", "latest") if getattr(p, name) < 0}}
            for p in detail.partitions
        )
        return
    print_table(
        ("partition", "leader", "replicas", "in sync", "earliest", "latest"),
        [
            (
                p.partition,
                "none" if p.leader < 0 else p.leader,
                ",".join(map(str, p.replicas)),
                ",".join(map(str, p.in_sync)) or NONE,
                NONE if p.earliest < 0 else p.earliest,
                NONE if p.latest < 0 else p.latest,
            )
            for p in detail.partitions
        ],
    )
    for name, value in detail.settings.items():
        click.echo(f"{name} = {value}")


@command.command("offsets")
@bootstrap_option
@click.argument("topic")
@json_option
def offsets(bootstrap: str, topic: str, as_json: bool) -> None:
    """Show the first and the next offset of each partition, and how many lie between.

    \b
    Example:
      streamactors topics offsets flights
    """
    rows = [
        (p.partition, p.earliest, p.latest, p.latest - p.earliest) for p in admin_client(bootstrap).partitions(topic)
    ]
    columns = ("partition", "earliest", "latest", "records")
    if as_json:
        print_json(dict(zip(columns, row, strict=True)) for row in rows)
    else:
        print_table(columns, rows)


@command.command("alter")
@bootstrap_option
@click.argument("topic")
@click.option("--partitions", "-p", type=click.IntRange(1, MOST_PARTITIONS), help="The new number of partitions.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting; may be given several times.")
@click.option(
    "--unset", multiple=True, metavar="KEY", help="A setting to remove, so that the broker's default applies."
)
def alter(
    bootstrap: str, topic: str, partitions: int | None, settings: tuple[str, ...], unset: tuple[str, ...]
) -> None:
    """Change a topic's settings, or give it more partitions.

    \b
    Example:
      streamactors topics alter flights --set cleanup.policy=compact --unset retention.ms
    """
    given = _settings(settings, "--set")
    both = given.keys() & set(unset)
    if both:
        raise click.UsageError(f"{min(both)} is both set and unset; give one of the two")
    changes: dict[str, str | None] = {**given, **dict.fromkeys(unset)}
    if not changes and partitions is None:
        raise click.UsageError("nothing to change: give --set, --unset or --partitions")
    admin = admin_client(bootstrap)
    missing = set(unset) - admin.describe(topic).settings.keys() if unset else set()
    if missing:  # a typo; the broker removes what is not there without a word
        raise click.ClickException(
            f"topic {topic} has no setting {min(missing)} of its own to unset; streamactors topics describe {topic} shows those it has"
        )
    if changes:
        admin.alter(topic, changes)
    if partitions is not None:
        admin.grow(topic, partitions)
    click.echo(f"topic {topic} changed")


@command.command("delete")
@bootstrap_option
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
def delete(bootstrap: str, topics: tuple[str, ...]) -> None:
    """Delete topics and everything in them.

    \b
    Example:
      streamactors topics delete flights weather
    """
    from streamactors.kafka.errors import TopicNotFound

    admin = admin_client(bootstrap)
    for topic in topics:
        try:
            admin.delete(topic)
        except TopicNotFound:
            raise click.ClickException(f"no topic {topic} at {bootstrap}; see: streamactors topics list") from None
        click.echo(f"topic {topic} deleted")
