"""The watch around every test: what the product must never do, whatever the test is about.

No loop wakes in vain; no buffer holds more than its bound; every closing ends within its limit; no process crashes or fails unnoticed; no stream
or client of Kafka lives longer than its test; nothing is logged at WARNING or above that the test did not expect, and nothing twice
within a second. A test that breaks one of these fails at its end, by name."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Container, Generator
from pathlib import Path
from typing import Any

import pytest

from streamactors.actors.dispatching.spinning import forget_spins, spins
from streamactors.gauges import forget_overfull, overfull
from streamactors.log_limit import forget_causes
from tests.watch.clients import ClientWatch
from tests.watch.closings import ClosingWatch
from tests.watch.leftovers import LeftoverWatch
from tests.watch.logs import Expected, LogWatch, expected_by, expected_of_files, repeated, unexpected
from tests.watch.processes import ProcessWatch
from tests.watch.rooms import expected_in, room_of_processes


class Watched(AssertionError):
    """What the watch has found during a test."""


class Watch:
    """A pytest plugin. The faults of a test are collected until its fixtures are torn down."""

    def __init__(self, report: Path | None = None) -> None:
        self._report = report
        self._patch = pytest.MonkeyPatch()
        self.logs = LogWatch()
        self.processes = ProcessWatch()
        self.closings = ClosingWatch()
        self.leftovers = LeftoverWatch()
        self.clients = ClientWatch()
        self._of_files = expected_of_files()
        self._of_rooms: dict[str, Expected] = defaultdict(Expected)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        hands_out_tests = session.config.getoption("numprocesses", None) and not hasattr(session.config, "workerinput")
        if not hands_out_tests:  # else the workers watch
            self.install()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._patch.undo()
        self.processes.close()
        forget_causes()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note what the tests of each room with brokers expect, those that are not selected included."""
        for item in items:
            room = room_of_processes(item.nodeid)
            if room:
                self._of_rooms[room] += expected_by(item.iter_markers("expects_log"))
        for file, expected in self._of_files.items():
            self._of_rooms[room_of_processes(file)] += expected

    def install(self) -> None:
        """Start to watch."""
        self.logs.install(self._patch)
        self.processes.install(self._patch)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self.closings.install(self._patch)
        self.clients.install(self._patch)
        forget_causes()  # what a test logs does not depend on the second before it

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        return (yield from self.clients.fixture(fixturedef))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        result = yield
        item.funcargs.clear()  # what a fixture has made for this test ends with its last reference
        of_file = self._of_files.get(item.nodeid.partition("::")[0], Expected())
        found = self.take(
            expected_by(item.iter_markers("expects_log")) + of_file + expected_in(item.nodeid) + self._by_chance(item),
            exit_codes={code for marker in item.iter_markers("expects_exit_code") for code in marker.args},
            may_crash=item.get_closest_marker("expects_crash") is not None,
            of_module=nextitem is not None and nextitem.path == item.path,
        )
        if found:
            if self._report is None:
                raise Watched("the watch found:\n" + "\n".join(found))
            with self._report.open("a") as report:
                report.write(json.dumps([item.nodeid, found, self.templates]) + "\n")
        return result

    def _by_chance(self, item: pytest.Item) -> Expected:
        """Return what other tests of a room with brokers provoke, once each: a process that is killed, or a machine without time, does so by chance."""
        room = room_of_processes(item.nodeid)
        found = self._of_rooms[room] if room else Expected()
        return Expected(found.parts + found.again)

    def take(
        self, expected: Expected, *, exit_codes: Container[int] = (), may_crash: bool = False, of_module: bool = False
    ) -> list[str]:
        """Return a sentence for each fault since the last call."""
        left = self.leftovers.take() + self.clients.take(
            of_module=of_module
        )  # first: a stream that ends only now may log
        unread, seen = self.logs.take()
        of_processes, crashes = self.processes.take()
        found = left + [f"spins: {spin}" for spin in spins()]
        found += [f"holds too much: {each}" for each in overfull()]
        forget_spins()
        forget_overfull()
        found += [f"closes late: {late}" for late in self.closings.take()]
        failed = self.processes.exit_codes.take(exit_codes)
        found += [] if may_crash else crashes + failed
        self.templates = sorted({each.template for each in [*unread, *of_processes]})
        found += unexpected([*unread, *of_processes], expected)
        found += repeated([*seen, *of_processes], expected)
        return found
