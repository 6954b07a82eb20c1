"""`streamactors shims`: scripts named like Apache Kafka's, so that whatever starts a Kafka through them starts this
broker."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from streamactors.errors import StreamActorsError

_SCRIPT = """#!/bin/sh
# Stands in for Apache Kafka's {name}; made by `streamactors shims`.
exec {python} -m streamactors.cli.kafka_scripts {name} "$@"
"""


class CannotWrite(StreamActorsError):
    """The folder for the scripts cannot be written."""


@click.command("shims")
@click.option("--into", required=True, metavar="DIR", help="Where to put them: as DIR/bin/kafka-topics.sh and so on.")
def command(into: str) -> None:
    """Write scripts named like Apache Kafka's into DIR/bin.

    They start, format and administer this broker, so that test fixtures and tools made for Apache Kafka run
    unmodified: give them DIR as KAFKA_HOME, KAFKA_ROOT or whatever they call it.

    \b
    Example:
      streamactors shims --into ./kafka && ./kafka/bin/kafka-topics.sh --list --bootstrap-server localhost:9092
    """
    from streamactors.cli.kafka_scripts import SCRIPTS

    folder = Path(into) / "bin"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in SCRIPTS:
            script = folder / name
            script.write_text(_SCRIPT.format(name=name, python=shlex.quote(sys.executable)))
            script.chmod(0o755)
    except OSError as error:
        raise CannotWrite(f"cannot write {folder}: {error.strerror or error}; choose another --into") from error
    click.echo(f"{len(SCRIPTS)} scripts in {folder}")
