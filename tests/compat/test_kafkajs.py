"""KafkaJS, the JavaScript client, against this broker: both ways, groups, transactions, administration."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from streamactors.broker import Cluster
from tests.compat.support import CACHE, HERE, run

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(600)]

VERSION = "2.2.4"
PROGRAM = HERE / "programs" / "kafkajs_client.cjs"
CASES = re.findall(r"^  async '(.+)'\(\)", PROGRAM.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    """Case -> "ok", or why it failed."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("Node.js is not here")
    folder = CACHE / f"kafkajs-{VERSION}"
    if not (folder / "node_modules" / "kafkajs").exists():
        folder.mkdir(parents=True, exist_ok=True)
        ran = run(
            [npm, "install", "--prefix", folder, "--no-audit", "--no-fund", f"kafkajs@{VERSION}"],
            folder=folder,
            timeout_s=300,
        )
        if ran.returncode != 0:
            pytest.skip(f"kafkajs {VERSION} cannot be downloaded: {ran.stderr.strip()[-200:]}")
    with Cluster(process=True, listen="127.0.0.1:0") as cluster:
        ran = run(
            [node, PROGRAM, cluster.bootstrap_servers],
            folder=folder,
            timeout_s=540,
            env={"NODE_PATH": os.fspath(folder / "node_modules"), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = re.findall(r"^(ok|failed) (.+?)(?:: (.*))?$", ran.stdout, re.MULTILINE)
    return {name: "ok" if outcome == "ok" else why for outcome, name, why in lines}


@pytest.mark.parametrize("case", CASES)
def test_works(told: dict[str, str], case: str) -> None:
    assert told.get(case) == "ok"
