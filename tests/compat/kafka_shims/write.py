"""Writes scripts named like Apache Kafka's, so that a fixture made for Apache Kafka starts and administers this broker.

Give the folder to the fixture as KAFKA_HOME, KAFKA_ROOT or whatever name it uses: `python -m tests.compat.kafka_shims.write FOLDER`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tests.compat.kafka_shims.kafka_scripts import SCRIPTS

ROOT = Path(__file__).resolve().parents[3]

_SCRIPT = """#!/bin/sh
# Stands in for Apache Kafka's {name}.
PYTHONPATH={root}${{PYTHONPATH:+:$PYTHONPATH}} exec {python} -m tests.compat.kafka_shims.kafka_scripts {name} "$@"
"""


def write_scripts(into: Path) -> None:
    """Write every script into the folder `into`/bin."""
    folder = into / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    for name in SCRIPTS:
        script = folder / name
        script.write_text(_SCRIPT.format(name=name, root=shlex.quote(str(ROOT)), python=shlex.quote(sys.executable)))
        script.chmod(0o755)


if __name__ == "__main__":
    write_scripts(Path(sys.argv[1]))
