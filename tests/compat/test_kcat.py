"""kcat from Debian's archive, both ways."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from streamactors.broker import Cluster
from tests.compat.support import debian_program

pytestmark = [pytest.mark.compat, pytest.mark.slow]

PACKAGES = ("kcat", "librdkafka1", "libyajl2")
Kcat = Callable[..., str]


@pytest.fixture(scope="module")
def kcat() -> Iterator[Kcat]:
    program, env = debian_program("kcat", *PACKAGES)
    with Cluster(process=True, config={"num.partitions": 3}) as cluster:

        def run(*arguments: str, stdin: str = "") -> str:
            ran = subprocess.run(
                [program, "-b", cluster.bootstrap_servers, *arguments],
                input=stdin,
                env=env,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert ran.returncode == 0, ran.stderr
            return ran.stdout

        yield run


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_thousand_lines_go_in_and_come_out(kcat: Kcat, codec: str) -> None:
    topic = f"lines-{codec}"
    lines = [f"key-{number}:value {number}" for number in range(1000)]
    kcat("-P", "-t", topic, "-K", ":", "-z", codec, stdin="\n".join(lines))
    assert sorted(kcat("-C", "-t", topic, "-K", ":", "-e", "-q").splitlines()) == sorted(lines)


def test_one_partition_keeps_its_order(kcat: Kcat) -> None:
    lines = [str(number) for number in range(1000)]
    kcat("-P", "-t", "ordered", "-p", "1", stdin="\n".join(lines))
    assert kcat("-C", "-t", "ordered", "-p", "1", "-e", "-q").splitlines() == lines
    assert kcat("-C", "-t", "ordered", "-p", "1", "-o", "-3", "-e", "-q").splitlines() == lines[-3:]


def test_a_group_reads_everything_once(kcat: Kcat) -> None:
    lines = [str(number) for number in range(300)]
    kcat("-P", "-t", "grouped", stdin="\n".join(lines))
    first = kcat("-G", "readers", "-e", "-q", "-X", "auto.offset.reset=earliest", "grouped").splitlines()
    assert sorted(first, key=int) == lines
    assert kcat("-G", "readers", "-e", "-q", "-X", "auto.offset.reset=earliest", "grouped") == ""


def test_metadata_is_listed(kcat: Kcat) -> None:
    kcat("-P", "-t", "listed", stdin="x")
    listed = kcat("-L", "-t", "listed")
    assert 'topic "listed" with 3 partitions' in listed
    assert "1 brokers" in listed
