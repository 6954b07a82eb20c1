"""`streamactors run --processes N`: N processes that run the same graph as members of its consumer groups.

Owner: the command. A member that fails is started again after a growing back-off; when all have ended, or the command was asked to end and all are
drained, it is over."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

import streamactors
from streamactors.actors.workers.process import ending_of
from streamactors.cli.graphs.exit_codes import TERMINATED
from streamactors.cli.graphs.member import ASK, ASK_PAGE, LENGTH, MAX_ANSWER, NUMBER, SOCKET
from streamactors.dashboard.combining import DashboardUnreachable, Remote
from streamactors.dsl.runnable import RunnableGraph
from streamactors.errors import BuildError, StreamActorsError
from streamactors.metrics.members import RESTARTS, UP

FIRST_BACKOFF_S: Final = 0.5
LONGEST_BACKOFF_S: Final = 30.0
STEADY_S: Final = 60.0
"""After a member has run for this long, its next back-off is the first one again."""
ANSWER_S: Final = 2.0
_CANNOT_RUN: Final = 2


class MembersFailed(StreamActorsError):
    """The members cannot run, or a member did not drain."""


def check_shared(graph: RunnableGraph[Any], processes: int) -> None:
    """Raise BuildError unless every source of the graph shares its partitions in a consumer group."""
    from streamactors.cli.graphs.preflight import kafka_clients
    from streamactors.engine.boundary import BoundaryIn
    from streamactors.engine.planning.plan import plan_of
    from streamactors.kafka.settings import ConsumerSettings
    from streamactors.kafka.subscriptions import AutoSubscription

    shared = {
        label
        for label, settings, subscription in kafka_clients(graph)
        if isinstance(settings, ConsumerSettings) and settings.group_id and isinstance(subscription, AutoSubscription)
    }
    sources = [
        node.label
        for node in plan_of(graph.module).nodes
        if not node.stage.shape.inlets and not isinstance(node.stage, BoundaryIn)
    ]
    alone = [label for label in sources if label not in shared]
    if alone or not sources:
        raise BuildError(
            f"--processes {processes}: source '{alone[0] if alone else 'none'}' does not share its partitions in a consumer group, so every "
            "process would read all of it; use a Consumer source with a group_id and Subscriptions.topics(…), or run one process"
        )


class MemberProcess:
    """One member: its process, and when it is started again."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.restarts = 0  # in a row
        self.code: int | None = None  # of its end, when it is not started again
        self.began_s = 0.0
        self.due_s = 0.0
        self._end: socket.socket | None = None
        self._owed = 0  # answers that were asked for and are not read
        self._left: int | None = None  # bytes of the answer that is being read
        self._got = bytearray()
        self._lock = Lock()

    def start(self, arguments: Sequence[str]) -> None:
        """Start the process."""
        ours, theirs = socket.socketpair()
        with theirs:
            root = str(Path(streamactors.__file__).parents[1])
            path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streamactors.cli.main", "run", *arguments],
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the parent, which asks the members to drain
                env={**os.environ, "PYTHONPATH": path, NUMBER: str(self.number), SOCKET: str(theirs.fileno())},
            )
        ours.settimeout(ANSWER_S)
        with self._lock:
            self._end = ours
        self.began_s = time.monotonic()

    def metrics(self) -> str | None:
        """Return the member's metrics as text; None if it does not answer."""
        return self.answer(ASK)

    def answer(self, question: bytes) -> str | None:
        """Return the member's answer; None if it does not answer within ANSWER_S.

        A late answer is dropped when it comes, so that it is not taken for the next one. The socket stays open: its end would drain the member."""
        with self._lock:
            if self._end is None:
                return None
            try:
                while self._owed:
                    self._next()
                self._end.sendall(question)
                self._owed += 1
                answer = self._next()
                return None if answer is None else answer.decode()
            except TimeoutError:
                return None
            except (OSError, ValueError):
                self._close()
                return None

    def _next(self) -> bytes | None:
        """Return the next answer, None in place of one that is too long. Raises TimeoutError, and continues at its next call."""
        if self._left is None:
            self._fill(LENGTH.size)
            (self._left,) = LENGTH.unpack(self._got)
            self._got.clear()
        if self._left > MAX_ANSWER:
            while self._left:
                self._left -= len(self._receive(self._left))
            found = None
        else:
            self._fill(self._left)
            found = bytes(self._got)
            self._got.clear()
        self._left = None
        self._owed -= 1
        return found

    def _fill(self, n: int) -> None:
        while len(self._got) < n:
            self._got += self._receive(n - len(self._got))

    def _receive(self, most: int) -> bytes:
        assert self._end is not None
        data = self._end.recv(min(most, 1 << 16))
        if not data:
            raise ConnectionError("the member has ended")
        return data

    def _close(self) -> None:
        if self._end is not None:
            self._end.close()
        self._end = None
        self._owed, self._left = 0, None
        self._got.clear()

    def ask(self, number: int) -> None:
        """Send a signal."""
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    def forget(self) -> None:
        """The process has ended."""
        self.process = None
        with self._lock:
            self._close()


class MemberPage:
    """The page that a member serves on loopback from the first question for it on: the page of all members reads its states, and passes questions on to it."""

    def __init__(self, member: MemberProcess) -> None:
        self._member = member
        self._process: subprocess.Popen[bytes] | None = None
        self.name = f"member {member.number}"
        self.page: Remote | None = None

    def state(self) -> dict[str, Any]:
        """Return the newest state. Raises DashboardUnreachable."""
        process = self._member.process
        if self.page is None or process is not self._process:
            address = self._member.answer(ASK_PAGE)
            if not address:
                raise DashboardUnreachable(f"{self.name} does not answer")
            self.close()
            self._process, self.page = process, Remote(address, self.name)
        return self.page.state()

    def close(self) -> None:
        """End the connection."""
        if self.page is not None:
            self.page.close()


class Members(Collector):
    """All members; a context manager, at whose end no process is left. As a collector it merges their metrics, with a label `member`."""

    def __init__(
        self, arguments: Sequence[str], processes: int, most_restarts: int, say: Callable[[str], None]
    ) -> None:
        self._arguments = arguments
        self._most_restarts = most_restarts
        self._say = say
        self._members = [MemberProcess(number) for number in range(processes)]
        self._draining = False

    def __enter__(self) -> Members:
        for member in self._members:
            member.start(self._arguments)
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members:
            member.ask(signal.SIGKILL)
            if member.process is not None:
                member.process.wait()
            member.forget()

    def stop(self) -> None:
        """Ask all members to drain; none is started again."""
        self._draining = True
        for member in self._members:
            member.ask(signal.SIGTERM)

    def look(self) -> bool:
        """See which members have ended, and start those again whose back-off is over. Return whether all are over."""
        now_s = time.monotonic()
        for member in self._members:
            if member.process is not None and member.process.poll() is not None:
                self._ended(member, now_s)
            if member.process is None and member.code is None and now_s >= member.due_s:
                if self._draining:
                    member.code = 0
                else:
                    member.start(self._arguments)
        return all(member.code is not None for member in self._members)

    def _ended(self, member: MemberProcess, now_s: float) -> None:
        assert member.process is not None
        code = member.process.returncode
        pid = member.process.pid
        member.forget()
        if code in (0, _CANNOT_RUN) or self._draining:
            asked_before_it_ran = (
                self._draining and code == -signal.SIGTERM
            )  # it had no handler yet, and nothing to drain
            member.code = 0 if asked_before_it_ran else code
            return
        if now_s - member.began_s > STEADY_S:
            member.restarts = 0
        if member.restarts >= self._most_restarts:
            member.code = code
            self._say(
                f"member {member.number} (process {pid}) {ending_of(code)}, after {member.restarts} restarts in a row; given up"
            )
            self.stop()
            return
        delay_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2**member.restarts) * (1 + random.random() * 0.2)
        member.restarts += 1
        member.due_s = now_s + delay_s
        self._say(f"member {member.number} (process {pid}) {ending_of(code)}; started again in {delay_s:.1f} s")

    @property
    def failed(self) -> list[str]:
        """The members that did not end well, as text."""
        return [
            f"member {member.number} {ending_of(member.code)}"
            for member in self._members
            if member.code and not (self._draining and member.code == TERMINATED)
        ]

    @property
    def codes(self) -> set[int]:
        """The exit codes of the members that are over."""
        return {member.code for member in self._members if member.code is not None}

    def readiness(self) -> tuple[bool, Sequence[str]]:
        """Return whether all members run, and a line for each that does not."""
        away = [f"member {member.number} does not run" for member in self._members if member.process is None]
        return not away and not self._draining, ["draining"] * self._draining + away

    def pages(self) -> list[MemberPage]:
        """Return the members' pages."""
        return [MemberPage(member) for member in self._members]

    # ── metrics ───────────────────────────────────────────────────────────────────────────────────────────────────

    def collect(self) -> Iterator[Metric]:
        """The families of all members, and of the members themselves."""
        merged: dict[str, Metric] = {}
        yield UP.metric(((str(each.number),), float(each.process is not None)) for each in self._members)
        yield RESTARTS.metric(((str(each.number),), float(each.restarts)) for each in self._members)
        for member in self._members:
            label = {"member": str(member.number)}
            for family in text_string_to_metric_families(member.metrics() or ""):
                into = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    into.add_sample(sample.name, {**sample.labels, **label}, sample.value)
        yield from merged.values()

    def describe(self) -> list[Metric]:
        """Return nothing: registering asks no member."""
        return []
