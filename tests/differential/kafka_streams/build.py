"""Compiles the programs in `src` with Kafka Streams; the jars come through the Maven that is configured on the machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def classpath(out: Path) -> str:
    """Return the class path of the programs, compiled into `out`. Raises CalledProcessError if they cannot be."""
    listing = out / "classpath"
    goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={listing}"]
    subprocess.run(["mvn", "-q", "-B", f"-Dout={out}", *goals], cwd=HERE, check=True, timeout=600)
    return f"{out / 'classes'}:{listing.read_text().strip()}"
