"""The watch finds what the product must never do, and names the test that did it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.actors.futures import StreamFuture
from streamactors.kafka.reading.ending import Ending
from streamactors.log_limit import LEFT_OUT
from tests.watch.closings import CLOSINGS, ClosingWatch
from tests.watch.logs import EXPECTED, Expected, Seen, expected_of_files, repeated, unexpected
from tests.watch.plugin import Watch
from tests.watch.processes import FOLDER
from tests.watch.rooms import expected_in, room_of_processes

ROOT = Path(__file__).resolve().parents[2]

CONFTEST = """
from tests.watch.clients import ClientWatch
from tests.watch.leftovers import LeftoverWatch
from tests.watch.plugin import Watch


def pytest_configure(config):
    config.addinivalue_line("markers", "expects_log(*parts): what the test may log")
    config.addinivalue_line("markers", "expects_exit_code(*codes): how processes may end")
    config.addinivalue_line("markers", "expects_crash: a process is meant to crash")
    watch = Watch()
    watch.leftovers = LeftoverWatch(within_s=0.1)
    watch.clients = ClientWatch(within_s=0.5)
    config.pluginmanager.register(watch, "watch")
"""

FOUND = {
    "test_spins": "spins: dispatcher 'faulty': int was called 100 times in succession for <socket.socket",
    "test_leaves_a_stream_running": "leaves a stream running: in <ActorSystem 'default', running>: ",
    "test_leaves_a_consumer_open": "leaves a client open: Consumer, bootstrap.servers localhost:1, group.id g, reads t, made on the thread 'MainThread': "
    "test_faulty.py:",
    "test_leaves_a_producer": "leaves a client open: Producer, bootstrap.servers localhost:1, transactional.id mine, made on the thread 'MainThread': ",
    "test_is_the_last_with_a_client_of_a_fixture": "leaves a client open: AdminClient, bootstrap.servers localhost:2, made on the thread",
    "test_overfills_a_buffer": "holds too much: a queue of faulty: 3 elements, and its bound is 2",
    "test_starts_a_process_that_aborts": "was ended by SIGABRT",
    "test_starts_a_process_that_starts_one_that_aborts": "crashed:",
    "test_drops_the_exit_code_of_a_process": "-c raise SystemExit(3) ended with exit code 3, and nobody used its exit code",
    "test_waits_for_a_process_and_drops_its_exit_code": "-c raise SystemExit(4) ended with exit code 4, and nobody",
    "test_starts_a_process_that_another_one_kills": "-c input() ended with SIGTERM, and nobody",
    "test_has_a_broker_that_does_not_stop": "the broker's process 7 did not stop within 10 s",
    "test_starts_a_process_that_warns": "logged, and not expected: WARNING streamactors.far: a disk is full (in ",
    "test_warns": "logged, and not expected: WARNING streamactors.faulty: a disk is full",
    "test_warns_twice": "logged again after",
    "test_floods_the_log": "logged 20 times within a second: WARNING streamactors.faulty: connection of 127.0.0.1:",
    "test_warns_after_it_has_read": "logged, and not expected: WARNING streamactors.faulty: a disk is full",
}
CLEAN = {
    "test_leaves_a_stream_that_ends_by_itself",
    "test_drops_a_client_in_a_cycle",
    "test_closes_a_consumer",
    "test_has_a_client_of_a_fixture",
    "test_warns_as_expected",
    "test_reads_what_it_warned_of",
    "test_kills_a_process_and_starts_one_that_fails",
    "test_uses_the_exit_codes_of_its_processes",
    "test_runs_a_command_of_the_system_that_fails",
    "test_starts_a_process_that_is_meant_to_fail",
    "test_starts_a_process_that_is_meant_to_crash",
    "test_warns_often_as_expected",
    "test_is_quiet",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of the faulty tests."""
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_faulty.py").write_text((Path(__file__).parent / "faulty.py").read_text())
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    options = ["--import-mode=importlib", "--rootdir", str(folder), "-c", "/dev/null", str(folder)]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(FOLDER, raising=False)  # what these processes do is not a fault of this test
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        ended = subprocess.run(command + options, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    return ended.stdout


@pytest.mark.parametrize("name", FOUND)
def test_a_fault_fails_the_test_in_which_it_happened_and_is_named(report: str, name: str) -> None:
    assert f"ERROR test_faulty.py::{name} - " in report
    of_test = report.partition(f"at teardown of {name} ")[2].partition("\n____")[0]
    assert FOUND[name] in of_test


@pytest.mark.parametrize("name", sorted(CLEAN))
def test_what_a_test_expects_or_does_to_its_own_processes_is_no_fault(report: str, name: str) -> None:
    assert f"ERROR test_faulty.py::{name} " not in report
    assert f"PASSED test_faulty.py::{name}" in report


def test_a_closing_beyond_its_limit_is_named_with_both_times() -> None:
    watch = ClosingWatch(grace_s=0.5)
    late = watch.measured("Cluster.close", lambda: None, lambda arguments, named: -1.0)
    late()
    assert [found.partition(" took ")[0] for found in watch.take()] == ["Cluster.close"]
    assert watch.take() == []


def test_a_closing_without_a_limit_may_take_its_time() -> None:
    watch = ClosingWatch(grace_s=-1.0)
    watch.measured("drain", lambda: None, lambda arguments, named: None)()
    assert watch.take() == []


@pytest.mark.parametrize("closes", [True, False])
def test_a_consumer_that_closes_late_is_named_and_one_that_ends_with_its_system_is_not(
    closes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SimpleNamespace(commit_timeout_ms=3_000, close_timeout_ms=2_000, group_id="orders")
    shared = SimpleNamespace(settings=settings)
    monkeypatch.setattr(Ending, "begin", lambda ending, message: None)
    watch = ClosingWatch(grace_s=-6.0)
    watch.install(monkeypatch)
    ended: StreamFuture[None] = StreamFuture("the end")
    Ending(shared, None, ended, lambda error: None, lambda ms: None).begin(None)  # type: ignore[arg-type, call-arg]
    if closes:
        ended.try_complete(None)
    found = watch.take()
    assert [late.partition(" after ")[0] for late in found] == ["the consumer of group orders closed"] * closes
    assert all(late.endswith("its limit is 5 s") for late in found)
    assert watch.take() == []


@pytest.mark.parametrize(
    ("arguments", "named", "limit"), [((None,), {}, 5.0), ((None, 2), {}, 2.0), ((None,), {"timeout": "3s"}, 3.0)]
)
def test_the_limit_of_a_closing_is_the_one_that_the_caller_gave(
    arguments: tuple[object, ...], named: dict[str, object], limit: float
) -> None:
    stop = next(find for _, kind, _, find in CLOSINGS if kind == "Dispatcher")
    assert stop(arguments, named) == limit


def test_a_message_may_come_again_after_a_second_and_another_message_at_once() -> None:
    def seen(message: str, at_s: float) -> Seen:
        return Seen("streamactors.x", "WARNING", message, message, at_s)

    assert repeated([seen("a", 0.0), seen("b", 0.1), seen("a", 1.0)]) == []
    assert repeated([seen("a", 0.4), seen("a", 1.0), seen("a", 2.0), seen("a", 3.0)]) == []  # the first was held up
    assert len(repeated([seen("a", 0.8 * number) for number in range(5)])) == 1
    assert len(repeated([seen("a", 0.0), seen("a", 0.4)])) == 1
    often = [seen("a", 0.0), seen("a", 0.9), seen("a", 0.95)]
    assert len(repeated(often)) == len(repeated(often, Expected(("a",)))) == 1
    assert repeated(often, Expected((), ("a",))) == []


def test_a_record_is_expected_by_a_part_of_its_message_or_by_its_template() -> None:
    record = Seen("streamactors.x", "WARNING", "%s failed: %s", "child failed: ValueError", 0.0)
    again = Seen("streamactors.x", "WARNING", "%s failed: %s" + LEFT_OUT, "child failed: ValueError (3 more …)", 0.0)
    assert unexpected([again], Expected(("%s failed: %s",))) == []
    for part in ("child failed", "%s failed: %s"):
        assert unexpected([record], Expected((part,))) == unexpected([record], Expected((), (part,))) == []
    assert unexpected([record], Expected(("parent failed",))) == [
        "logged, and not expected: WARNING streamactors.x: child failed: ValueError"
    ]


def test_the_list_of_expected_messages_is_sorted_and_its_files_exist() -> None:
    lines = [line for line in EXPECTED.read_text().splitlines() if not line.startswith("#")]
    assert lines == sorted(set(lines))
    assert [file for file in expected_of_files() if not (ROOT / file).exists()] == []


def test_the_rooms_with_brokers_are_known_and_no_other() -> None:
    assert room_of_processes("tests/kafka/test_x.py::test_y") == "tests/kafka/"
    assert room_of_processes("tests/stages/test_x.py::test_y") == ""


def test_what_a_test_of_a_room_provokes_may_come_by_chance_in_another_of_this_room() -> None:
    def item(name: str, *parts: str) -> Any:
        marks = [pytest.mark.expects_log(*parts).mark] if parts else []
        return SimpleNamespace(nodeid=name, iter_markers=lambda _: iter(marks))

    killed, other = item("tests/broker/test_a.py::test_a", "damaged at offset"), item("tests/broker/test_b.py::test_b")
    elsewhere = item("tests/stages/test_c.py::test_c")
    watch = Watch()
    watch.pytest_collection_modifyitems([killed, other, elsewhere])
    seen = Seen(
        "streamactors.broker.log", "WARNING", "…", "t-0: damaged at offset 7: the last batch is incomplete", 0.0
    )
    assert unexpected([seen], watch._by_chance(other)) == []
    assert len(unexpected([seen], watch._by_chance(elsewhere))) == 1


def test_a_room_expects_what_the_machine_decides_in_it_and_nothing_else() -> None:
    late = Seen(
        "streamactors.broker.controller",
        "WARNING",
        "…",
        "broker 1 is fenced: no heartbeat within the session timeout",
        0.0,
    )
    died = Seen(
        "streamactors.broker.controller", "WARNING", "…", "the data folder /b has failed: Input/output error", 0.0
    )
    assert unexpected([late], expected_in("tests/broker/cluster/test_x.py::test_y")) == []
    assert len(unexpected([died], expected_in("tests/broker/cluster/test_x.py::test_y"))) == 1
    assert len(unexpected([late], expected_in("tests/stages/test_x.py::test_y"))) == 1
