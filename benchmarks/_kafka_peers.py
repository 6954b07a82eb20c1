"""Other Python frameworks beside ours: each in an environment of its own, for they pin clients that exclude one another.

The environments lie in a cache folder outside the tree and are made at the first use. Where a package cannot be had, its row is left out
with a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Protocol

HOME = Path(tempfile.gettempdir()) / "streamactors-kafka-peers"
PROGRAM = Path(__file__).with_name("_kafka_peer.py")
PACKAGES = {
    "aiokafka": ("aiokafka==0.14.0",),
    "bytewax": ("bytewax==0.21.1", "confluent-kafka==2.4.0", "fastavro==1.9.7"),
    "quixstreams": ("quixstreams==3.28.1",),
    "faust": ("faust-streaming==0.15.3",),
}
ONLY_JOINS = {"pathway": ("pathway==0.33.0",)}
"""Peers of benchmarks/joins.py that read no topic here."""


class Peer(Protocol):
    """Reads n records of a topic; returns the seconds of CPU and the seconds it took."""

    def __call__(self, servers: str, topic: str, n: int) -> tuple[float, float]: ...


def installed() -> list[tuple[str, Peer]]:
    """Return the peers that can be had, by name."""
    found: list[tuple[str, Peer]] = []
    for name in PACKAGES:
        try:
            python = python_of(name)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"  {name} is left out: it cannot be installed ({error})", file=sys.stderr, flush=True)
        else:
            found.append((name, partial(run, name, python)))
    return found


def python_of(name: str) -> Path:
    """Return the Python of a peer's own environment. Raises SubprocessError where it cannot be made."""
    folder = HOME / name
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        HOME.mkdir(parents=True, exist_ok=True)
        quietly = partial(subprocess.run, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
        quietly([sys.executable, "-m", "venv", str(folder)])
        quietly([str(python), "-m", "pip", "install", "-q", *(PACKAGES | ONLY_JOINS)[name]])
        (folder / "complete").touch()
    return python


def run(name: str, python: Path, servers: str, topic: str, n: int) -> tuple[float, float]:
    """Read through a peer. Raises RuntimeError with what it said when it fails."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [str(python), str(PROGRAM), name, servers, topic, str(n)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    lines = [line for line in ran.stdout.splitlines() if line.startswith("[")]
    if not lines:
        raise RuntimeError(f"{name} has read nothing:\n{ran.stderr[-3_000:]}")
    cpu_s, wall_s = json.loads(lines[-1])
    return cpu_s, wall_s
