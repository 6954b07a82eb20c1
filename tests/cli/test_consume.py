"""`streamactors consume`: forms of output, where it ends, and groups, as kcat and Kafka's own tools have them."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest
import rich.table

from streamactors.broker import Cluster
from streamactors.cli.tables import StreamedTable
from tests.cli.ran import Run
from tests.cli.terminal import COMMAND, on_terminal


@pytest.fixture
def topic(broker: Cluster) -> str:
    name = f"c-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, 2)
    return name


@pytest.fixture
def ten(streamactors: Run, topic: str) -> str:
    """A topic with the values 0 to 9 in partition 0; the key is a or b."""
    lines = b"".join(b"%s:%d\n" % (b"ab"[n % 2 :][:1], n) for n in range(10))
    assert streamactors("produce", topic, "-p", "0", "-k", ":", stdin=lines).code == 0
    return topic


def test_in_a_pipe_the_values_are_written_as_they_are(streamactors: Run, broker: Cluster, topic: str) -> None:
    streamactors("produce", topic, "-p", "0", "--null-marker", "", stdin=b"\xff\x00\x1b[2J\n\ntwo\n")
    command = [*COMMAND, "consume", topic, "-b", broker.bootstrap_servers]
    ran = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert (ran.stdout, ran.stderr) == (b"\xff\x00\x1b[2J\n\ntwo\n", b"")


def test_a_format_prints_what_it_names(streamactors: Run, ten: str) -> None:
    assert streamactors("consume", ten, "--format", r"%t %p %o %k %v\n", "-n", "2") == (
        0,
        f"{ten} 0 0 a 0\n{ten} 0 1 b 1\n",
        "",
    )
    wrong = streamactors("consume", ten, "--format", "%x")
    assert (wrong.code, "--format: '%x' is no field of a format" in wrong.err) == (2, True)
    both = streamactors("consume", ten, "--format", "%v", "--json")
    assert (both.code, "--json, --table and --format exclude each other" in both.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (["--until", "3"], "012"),
        (["--until", "@3", "--from", "1"], "12"),
        (["--until", "-8"], "01"),
        (["--until", "+2"], "01"),
        (["--until", "end", "--from", "8"], "89"),
        (["--until", "latest", "--from", "end"], ""),
        (["--until", "-1h"], ""),
        (["--until", "4 records"], "0123"),
        (["--until", "1 record", "--from", "-2"], "8"),
        (["--until", "4 records", "-n", "2"], "01"),
        (["--until", "1000"], "0123456789"),
        (["--until", "5", "--from", "7"], ""),
        (["--from", "-1h"], "0123456789"),
        (["--from", "now"], ""),
        (["--from", "+7"], "789"),
        (["--from", "earliest", "-n", "1"], "0"),
        (["--key", "b"], "13579"),
        (["--key", "b", "-n", "2"], "13"),
        (["--key", "nobody"], ""),
    ],
)
def test_reading_begins_and_ends_where_it_is_asked_to(
    streamactors: Run, ten: str, arguments: list[str], values: str
) -> None:
    ran = streamactors("consume", ten, "-p", "0", *arguments)
    assert (ran.code, ran.out.replace("\n", ""), ran.err) == (0, values, "")


def test_an_end_that_is_none_names_the_choices(streamactors: Run, ten: str) -> None:
    ran = streamactors("consume", ten, "--until", "never")
    assert ran.code == 2
    assert "'never' is no end of reading; give beginning (earliest), end (latest), an offset" in ran.err
    assert "or a number such as '10 records'" in ran.err


def test_an_offset_and_a_time_still_to_come_are_waited_for(streamactors: Run, broker: Cluster, ten: str) -> None:
    command = [*COMMAND, "consume", ten, "-p", "0", "--follow", "--until", "12", "-b", broker.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        streamactors("produce", ten, "-p", "0", stdin=b"ten\neleven\ntwelve\n")
        assert process.stdout.read().splitlines()[-2:] == ["ten", "eleven"]
    assert process.returncode == 0
    began = time.monotonic()
    ran = streamactors("consume", ten, "--until", "+500ms")
    assert (ran.code, len(ran.out.splitlines())) == (0, 13)
    assert time.monotonic() - began >= 0.5


def test_a_group_continues_after_what_was_printed(streamactors: Run, ten: str) -> None:
    group = f"g-{ten}"
    first = streamactors("consume", ten, "--group", group, "--until", "4 records")
    assert (first.code, first.out, first.err) == (0, "0\n1\n2\n3\n", "")
    (lag,) = [row for row in streamactors("groups", "describe", group, "--json").json if row["partition"] == 0]
    assert (lag["committed"], lag["lag"]) == (4, 6)
    assert streamactors("consume", ten, "--group", group, "--until", "6").out == "4\n5\n"
    assert streamactors("consume", ten, "--group", group, "--key", "b").out == "7\n9\n"
    assert streamactors("consume", ten, "--group", group).out == ""
    late = streamactors("consume", ten, "--group", f"{group}-late", "--from", "end", "--until", "end")
    assert (late.code, late.out) == (0, "")


def test_a_member_for_whom_no_partition_is_left_says_so(streamactors: Run, broker: Cluster) -> None:
    single = f"s-{uuid.uuid4().hex[:8]}"
    broker.create_topic(single, 1)
    streamactors("produce", single, stdin=b"x\n")
    command = [*COMMAND, "consume", single, "--group", f"g-{single}", "--follow", "-b", broker.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "x\n"
        ran = streamactors("consume", single, "--group", f"g-{single}")
        process.send_signal(2)
        assert process.wait(30) == 130
    assert ran.code == 0
    assert ran.out == "" or ran.err == ""  # the group may give the partition to either of the two
    if not ran.err:
        return
    assert ran.err == f"streamactors: other members of group g-{single} read all partitions of {single}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--partition", "0"], "--group gets its partitions from the group; leave out --partition"),
        (["--from", "-1h"], "to move the group: streamactors groups reset-offsets g --topic"),
        (["--group", " "], "group_id must not be empty"),
    ],
)
def test_what_does_not_go_with_a_group_is_refused(streamactors: Run, ten: str, arguments: list[str], said: str) -> None:
    ran = streamactors("consume", ten, "--group", "g", *arguments)
    assert ran.code != 0
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_at_a_terminal_records_are_a_table_with_colours(broker: Cluster, streamactors: Run, ten: str) -> None:
    command = [*COMMAND, "consume", ten, "-b", broker.bootstrap_servers]
    with on_terminal(command) as terminal:
        assert terminal.ended() == 0
    assert "\x1b[1mpartition\x1b[0m" in terminal.text
    assert "\x1b[36mb" in terminal.text
    with on_terminal(["env", "NO_COLOR=1", *command]) as terminal:
        assert terminal.ended() == 0
    assert len(re.findall(r"^ +0 +\d   20\d\d-.*", terminal.text, re.MULTILINE)) == 10
    assert "\x1b[1m" not in terminal.text


def test_a_file_gets_the_records_while_the_terminal_shows_how_far_it_is(
    broker: Cluster, streamactors: Run, ten: str, tmp_path: Path
) -> None:
    file = tmp_path / "out"
    slow = (
        "from streamactors.cli.records import consume, printing; import time; raw = printing.raw\n"
        "consume.raw = lambda read: (lambda show: lambda records: (time.sleep(1.5), show(records)))(raw(read))\n"
        "from streamactors.cli import bootstrap, main; bootstrap.CONNECT_TIMEOUT_MS = 30_000; main.main()"
    )
    command = f"{sys.executable} -c '{slow}' consume {ten} -b {broker.bootstrap_servers} > {file}"
    with on_terminal(["sh", "-c", command]) as terminal:
        assert terminal.ended() == 0
    assert f"consume {ten}" in terminal.text
    assert file.read_text() == "".join(f"{n}\n" for n in range(10))


def test_a_table_in_batches_makes_no_table_of_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    # Batches of less than 200 rows were folded by rich at a terminal: 20,000 records took 13 s.
    monkeypatch.setattr(rich.table, "Table", None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    rows = StreamedTable(("n", "name"))
    assert rows.lines([(1, "a"), (200, "日本")]) == "  n   name\n──────────\n  1   a\n200   日本\n"
    assert rows.lines([(3, "x")]) == "  3   x\n"
    assert (
        StreamedTable(("n", "name"), ("dim", "")).lines([(1, "a")]).startswith("\x1b[1mn\x1b[0m   \x1b[1mname\x1b[0m\n")
    )


def test_new_records_are_written_at_once_in_a_pipe(streamactors: Run, broker: Cluster, ten: str) -> None:
    command = [*COMMAND, "consume", ten, "-f", "--from", "9", "-p", "0", "-b", broker.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        killer = threading.Timer(60, process.kill)
        killer.start()
        assert process.stdout.readline() == "9\n"
        streamactors("produce", ten, "-p", "0", stdin=b"more\n")
        assert process.stdout.readline() == "more\n"
        process.send_signal(2)
        assert process.wait(30) == 130
        killer.cancel()
