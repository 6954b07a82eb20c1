"""Several brokers of one host, one process each: `streamactors broker --processes N`. One interpreter lock each, so the host uses N cores.

Owner: the command's main thread. It starts the processes, starts one again that has ended, and stops them. No record passes it: clients connect to the
broker that leads a partition."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final

from streamactors.broker.errors import BrokerStartError
from streamactors.broker.launch.child_process import ChildBroker
from streamactors.log_limit import alike, log_limited

_log = logging.getLogger("streamactors.broker")

RESTART_S: Final = (0.5, 30.0)
"""How long to wait before a process is started again: at first, and at most."""
STEADY_S: Final = 60.0
"""After a process has run for this long, its next wait is the first one again."""


class HostBroker:
    """One of the brokers: its process while it runs, and when it starts again."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.node_id = int(arguments["settings"]["node.id"])
        self._arguments = arguments
        self.child: ChildBroker | None = None
        self._started_at = 0.0
        self._wait_s = RESTART_S[0]
        self.due_at = 0.0
        """When the process starts again, in monotonic seconds."""

    def start(self) -> ChildBroker:
        """Start the process; return when it serves clients. Raises BrokerStartError."""
        child = ChildBroker(self._arguments)
        self._started_at = time.monotonic()
        self.child = child
        return child

    def look(self) -> None:
        """Note the end of the process."""
        if self.child is None or (code := self.child.exit_code) is None:
            return
        if time.monotonic() - self._started_at > STEADY_S:
            self._wait_s = RESTART_S[0]
        self.child.close()
        self.child = None
        self._put_off(f"its process ended (exit code {code})")

    def revive(self) -> None:
        """Start the process again; if that fails, at a later time."""
        try:
            child = self.start()
        except BrokerStartError as error:
            self._put_off(f"its start failed: {error}")
            return
        _log.warning("broker %d runs again: process %d", self.node_id, child.pid)

    def _put_off(self, why: str) -> None:
        log_limited(
            _log, logging.WARNING, (self.node_id, alike(why)),
            "broker %d: %s; it starts again in %.1f s", self.node_id, why, self._wait_s,
        )  # fmt: skip
        self.due_at = time.monotonic() + self._wait_s
        self._wait_s = min(2 * self._wait_s, RESTART_S[1])

    def stop(self) -> None:
        """Have the process leave the cluster and end."""
        if self.child is not None:
            self.child.close()
            self.child = None


class HostBrokers:
    """A context manager. `arguments` are those of each broker's process, the one with the controller first."""

    def __init__(self, arguments: Sequence[Mapping[str, Any]]) -> None:
        self.brokers = [HostBroker(each) for each in arguments]
        self._wake = threading.Event()
        self._asked = False
        self._undo = ExitStack()

    def __enter__(self) -> HostBrokers:
        """Start every process. Raises BrokerStartError, and leaves none running then."""
        with ExitStack() as undo:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
                if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                    continue  # nohup: the brokers must outlive their terminal
                undo.callback(signal.signal, number, signal.signal(number, self._signalled))
            undo.callback(self._stop_all)
            first, *others = self.brokers
            first.start()  # The others wait for their controller; if it cannot start, they are not started.
            with ThreadPoolExecutor(max(len(others), 1)) as pool:
                _each(pool, [each.start for each in others])
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def serve(self) -> None:
        """Return when SIGTERM, SIGINT or SIGHUP has come. A process that ends is started again."""
        while not self._asked:
            self._wake.clear()
            for each in self.brokers:
                each.look()
            down = [each for each in self.brokers if each.child is None]
            for each in down:
                if each.due_at <= time.monotonic() and not self._asked:
                    each.revive()
            due = [each.due_at for each in self.brokers if each.child is None]
            if not self._asked:
                self._wake.wait(max(min(due) - time.monotonic(), 0.0) if due else None)

    def _signalled(self, number: int, _: object) -> None:
        self._asked = self._asked or number != signal.SIGCHLD
        self._wake.set()

    def _stop_all(self) -> None:
        """Stop the first one last: it may be the controller of the others, which ask it to let them go."""
        first, *others = self.brokers
        with ThreadPoolExecutor(max(len(others), 1)) as pool:
            _each(pool, [each.stop for each in others])
        first.stop()


def _each(pool: ThreadPoolExecutor, calls: Sequence[Callable[[], object]]) -> None:
    for done in [pool.submit(call) for call in calls]:
        done.result()
