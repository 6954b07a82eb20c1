"""The progress line of commands: on a terminal only, below what is printed and logged, and gone at the end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest
from rich.console import Console

from streamactors.broker import Cluster
from streamactors.cli import progress as module
from streamactors.cli.graphs.restores import Restores
from streamactors.cli.progress import Count, clock, drawn, numbers
from streamactors.kafka.state.changelogs.changelog_topics import RestoreProgress
from tests.cli.terminal import COMMAND, on_terminal

SLOW: Final = (
    "import logging, sys, time\n"
    "from streamactors.cli.progress import progress\n"
    "logging.basicConfig(stream=sys.stderr, format='logged %(message)s')\n"
    "def until(seen):\n"
    "    while not seen(): time.sleep(0.05)\n"
    "with progress('count sheep', 100, 'sheep') as bar:\n"
    "    bar.add(40); time.sleep(1.2)\n"
    "    logging.warning('a wolf'); print('a printed line', flush=True)\n"
    "    time.sleep(0.6)\n"
    "    {end}\n"
    "print('done')\n"
)


def text_on(screen: str) -> str:
    """Return what a terminal has shown, without colours; each redrawn line is one of its own."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen).replace("\r", "\n")


def last_screen(screen: str) -> list[str]:
    """Return the lines that are left on the terminal, by its own rules for the codes that are used here."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[[0-9;?]*[a-zA-Z]|[\r\n]|[^\x1b\r\n]+", screen):
        if part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            column = 0 if row == len(lines) else column
            lines += [""] * (row + 1 - len(lines))
        elif part.startswith("\x1b["):
            if part.endswith("A"):
                row -= int(part[2:-1] or 1)
            elif part == "\x1b[2K":
                lines[row] = ""
        else:
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines if line.strip()]


def test_a_bar_is_below_what_is_printed_and_logged_and_gone_at_the_end() -> None:
    with on_terminal([sys.executable, "-c", SLOW.format(end="bar.add(60)")]) as terminal:
        assert terminal.ended() == 0
    assert re.search(r"count sheep .*40 of 100 sheep, [\d.,]+/s, \d+:\d\d left", text_on(terminal.text))
    assert last_screen(terminal.text) == ["logged a wolf", "a printed line", "done"]


@pytest.mark.expects_exit_code(1)
def test_a_bar_is_gone_before_an_error_is_printed() -> None:
    with on_terminal([sys.executable, "-c", SLOW.format(end="raise SystemExit('an error')")]) as terminal:
        assert terminal.ended() == 1
    assert "count sheep" in terminal.text
    assert last_screen(terminal.text) == ["logged a wolf", "a printed line", "an error"]


def test_nothing_is_drawn_in_a_pipe_or_on_a_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = subprocess.run([sys.executable, "-c", SLOW.format(end="pass")], capture_output=True, text=True, check=True)
    assert (piped.stdout, piped.stderr) == ("a printed line\ndone\n", "logged a wolf\n")
    with on_terminal(["env", "TERM=dumb", sys.executable, "-c", SLOW.format(end="pass")]) as terminal:
        terminal.ended()
    assert "sheep" not in terminal.text


def test_a_command_that_is_over_soon_shows_nothing() -> None:
    script = "from streamactors.cli.progress import progress\nwith progress('quick'): pass\nprint('done')"
    with on_terminal([sys.executable, "-c", script]) as terminal:
        assert terminal.ended() == 0
    assert terminal.text == "done\r\n"


def test_the_line_says_rate_and_time_left_or_how_long_it_has_lasted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now.s))
    known, unknown, file = Count("a", 1_000), Count("b"), Count("c", 10_000_000, "bytes")
    now.s += 10
    for count, done in ((known, 400), (unknown, 400), (file, 2_500_000)):
        count.add(done)
    assert numbers(known) == "400 of 1,000 records, 40/s, 0:15 left"
    assert numbers(unknown) == "400 records, 40/s, 0:10"
    assert numbers(file) == "2.5 MB of 10.0 MB, 0.2 MB/s, 0:30 left"
    assert (clock(59.6), clock(3_725)) == ("1:00", "1:02:05")
    for _ in range(40):  # the rate is that of the last five seconds, not of the whole time
        now.s += 0.25
        known.add(1)
        numbers(known)
    assert known.rate() == pytest.approx(4, abs=0.3)


def test_more_than_the_total_and_a_total_of_nothing_are_drawn() -> None:
    for total, done in ((0, 0), (3, 7)):
        count = Count("what [bold]is[/bold] this", total)
        count.add(done)
        console = Console(record=True, width=120, file=open(os.devnull, "w"))  # noqa: SIM115
        console.print(drawn(count))
        assert "what [bold]is[/bold] this" in console.export_text()


def test_produce_and_consume_show_how_far_they_are(kafka_broker: Cluster, tmp_path: Path) -> None:
    address = ("-b", kafka_broker.bootstrap_servers)
    kafka_broker.create_topic("sheep")
    reader, writer = os.pipe()
    with on_terminal([*COMMAND, "produce", "sheep", *address], stdin=reader) as terminal:
        os.close(reader)
        os.write(writer, b"one\n" * 300)
        terminal.until(lambda text: "produce to sheep" in text and "records acknowledged" in text_on(text))
        os.close(writer)
        assert terminal.ended() == 0
    assert last_screen(terminal.text) == ["300 records produced to sheep"]
    with on_terminal([*COMMAND, "consume", "sheep", "-n", "400", "--from", "beginning", "-f", *address]) as terminal:
        terminal.until(lambda text: re.search(r"consume sheep .*300 of 400 records", text_on(text)) is not None)
        assert terminal.interrupt() == 130
    assert "Traceback" not in terminal.text
    assert sum("one" in line for line in last_screen(terminal.text)) == 300
    as_json = subprocess.run(
        [*COMMAND, "consume", "sheep", "-n", "2", "--json", *address], capture_output=True, text=True, check=True
    )
    assert (as_json.stdout.count("\n"), as_json.stderr) == (2, "")


SLOW_BROKER: Final = (
    "import time\n"
    "from streamactors.broker.server.server import Broker\n"
    "from streamactors.cli import main\n"
    "start = Broker.start\n"
    "Broker.start = lambda broker: (time.sleep(1.5), start(broker))\n"
    "main.main(['broker'])\n"
)


def test_a_broker_that_starts_slowly_says_what_it_does_until_it_is_ready() -> None:
    with on_terminal([sys.executable, "-c", SLOW_BROKER]) as terminal:
        terminal.until(lambda text: "streamactors broker ready" in text)
        assert "start the broker: open its logs" in text_on(terminal.text)
        (left,) = last_screen(terminal.text)
        assert left.startswith("streamactors broker ready")
        assert terminal.interrupt() == 0


def test_a_restore_is_shown_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    script = textwrap.dedent("""
        import time
        from streamactors.cli.graphs.restores import Restores
        from streamactors.kafka.state.changelogs.changelog_topics import RestoreProgress
        with Restores() as restores:
            restore = RestoreProgress(900, "g-counts-changelog")
            restores.look()
            restore.read(300)
            restores.look()
            time.sleep(1.5)
            restore.end()
            restores.look()
            print("running")
    """)
    with on_terminal([sys.executable, "-c", script]) as terminal:
        assert terminal.ended() == 0
    for part in ("g-counts-changelog", "300 of 900 entries"):  # a narrow terminal breaks the line between them
        assert part in text_on(terminal.text)
    assert last_screen(terminal.text) == ["running"]


def test_restores_that_have_ended_are_forgotten() -> None:
    with Restores() as restores:
        restore = RestoreProgress(3, "x")
        restores.look()
        assert restores._count is not None
        assert restores._count.total == 3
        restore.end()
        restores.look()
        assert restores._count is None


def test_ctrl_c_ends_a_bar_cleanly() -> None:
    with on_terminal([sys.executable, "-c", SLOW.format(end="time.sleep(60)")]) as terminal:
        terminal.until(lambda text: "a printed line" in text)
        terminal.process.send_signal(signal.SIGINT)
        began = time.monotonic()
        terminal.ended()
    assert time.monotonic() - began < 60
    assert not any("sheep" in line for line in last_screen(terminal.text) if "progress(" not in line)
