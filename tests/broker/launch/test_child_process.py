"""A broker's process that fails, says nothing or does not stop: the parent says so, and leaves no process behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from streamactors.broker.errors import BrokerStartError
from streamactors.broker.launch import child_process
from streamactors.broker.launch.child_process import ChildBroker

Start: TypeAlias = Callable[[str], ChildBroker]

PROGRAM = """#!{python} -SI
import json, os, signal, socket, sys
end = socket.socket(fileno=int(sys.argv[-1]))
lines = end.makefile("rb")
arguments = json.loads(lines.readline())
{body}
"""
READY = """
ready = {{"bootstrap_servers": "h:1", "local_address": "h:2", "cluster_id": "c", "data_folder": {folder!r}, "temporary": {temporary}, "ports": [1]}}
text = json.dumps(ready).encode() + b"\\n"
end.sendall(text[:10])
end.sendall(text[10:])
"""
HANG = "\nsignal.pause()"


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a program in the place of a broker's process."""
    python = sys.executable

    def start(body: str) -> ChildBroker:
        program = tmp_path / "program"
        program.write_text(PROGRAM.format(python=python, body=body))
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        return ChildBroker({"port": 0})

    return start


def ready(folder: Path, *, temporary: bool = False) -> str:
    return READY.format(folder=str(folder), temporary=temporary)


def test_a_process_that_does_not_stop_is_killed_and_the_log_says_so(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    broker = start(ready(data, temporary=True) + HANG)
    assert (broker.bootstrap_servers, broker.local_address, broker.cluster_id) == ("h:1", "h:2", "c")
    assert broker.exit_code is None
    monkeypatch.setattr(child_process, "STOP_TIMEOUT_S", 0.01)
    broker.close()
    assert broker.exit_code == -9
    said = [
        each for each in caplog.records if each.name == "streamactors.broker.launch"
    ]  # clients of other tests may log, too
    assert [each.getMessage() for each in said if each.levelname == "ERROR"] == [
        f"the broker's process {broker.pid} did not stop within 0.01 s and is killed; its next start recovers its logs"
    ]
    assert not data.exists()  # the process could not remove it


def test_a_process_that_stops_is_not_killed_and_a_users_folder_stays(start: Start, tmp_path: Path) -> None:
    broker = start(ready(tmp_path) + "\nsys.exit(3 if lines.readline() == b'' else 4)")
    broker.close()
    assert broker.exit_code == 3
    assert tmp_path.exists()


@pytest.mark.expects_log("did not stop within")
def test_a_process_that_says_nothing_is_killed_and_the_error_names_the_limit_and_how_it_ended(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "START_TIMEOUT_S", 0.01)
    monkeypatch.setattr(child_process, "STOP_TIMEOUT_S", 0.01)
    with pytest.raises(BrokerStartError, match=r"was not ready within 0\.01 s and was stopped \(exit code -9\)"):
        start(HANG)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("sys.exit(7)", r"ended before it was ready \(.*, exit code 7\)"),
        ("end.sendall(b'no json\\n')", r"ended before it was ready \(.*, exit code 0\)"),
        ("end.sendall(json.dumps({'error': f'port {arguments[\"port\"]} is taken'}).encode() + b'\\n')", r"^port 0 is taken\n"),
    ],
)  # fmt: skip
def test_a_process_that_cannot_start_says_why(start: Start, body: str, error: str) -> None:
    with pytest.raises(BrokerStartError, match=error):
        start(body)


def test_a_message_is_followed_when_its_number_has_come_back(start: Start, tmp_path: Path) -> None:
    """Answers come in pieces, and several at a time; the last one counts."""
    body = """
numbers = [json.loads(lines.readline())["number"] for _ in range(3)]
text = b"".join(json.dumps({"followed": number}).encode() + b"\\n" for number in numbers)
for piece in (text[:5], text[5:30], text[30:]):
    end.sendall(piece)
os._exit(0 if lines.readline() == b"" else 1)
"""
    broker = start(ready(tmp_path) + body)
    broker.await_followed()  # nothing was said yet
    for _ in range(3):
        broker.tell({"cut": []})
    broker.await_followed()
    assert broker._followed == 3
    broker.close()
    assert broker.exit_code == 0
    broker.tell({"cut": []})  # lost
    broker.await_followed()


def test_a_process_that_does_not_follow_is_named(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = start(ready(tmp_path) + HANG)
    monkeypatch.setattr(child_process, "TELL_TIMEOUT_S", 0.01)
    broker.tell({"cut": []})
    with pytest.raises(TimeoutError, match=f"process {broker.pid} has not changed its links after 0.01 s"):
        broker.await_followed()
    broker.kill()
    assert broker.exit_code == -9
    broker.await_followed()  # nobody answers any more


def test_a_paused_process_stands_still_until_it_is_resumed(start: Start, tmp_path: Path) -> None:
    broker = start(ready(tmp_path) + "\nlines.readline()")

    def state() -> str:
        return Path(f"/proc/{broker.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    broker.pause()
    assert state() == "T"
    broker.resume()
    broker.close()
    assert broker.exit_code == 0
    with pytest.raises(ProcessLookupError):
        os.kill(broker.pid, 0)
