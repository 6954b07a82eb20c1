"""Runs a broker as the main work of its process, until a signal or the end of the parent stops it.

Owner: the process's main thread, which only waits. The command line and `Cluster(process=True)` use it.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.errors import BrokerStartError
from streamactors.broker.http.endpoint_address import MetricsEndpoint
from streamactors.broker.launch.descriptor_limit import raise_descriptor_limit
from streamactors.broker.launch.startup import Assembled
from streamactors.collector import collect_seldom

if TYPE_CHECKING:
    from streamactors.broker.server.server import Broker


_PARENT_POLL_SECONDS: Final = 1.0
_START_SECONDS: Final = 5.0  # for a start that continues when the parent has ended


def run(
    assembled: Assembled,
    ready: Callable[[Broker], None],
    *,
    metrics: MetricsEndpoint | None = None,
    parent_pipe: int | None = None,
    on_line: Callable[[bytes], object] = lambda _: None,
    keeps: Callable[[], bool] = lambda: False,
) -> None:
    """Run a broker until SIGTERM, SIGINT or SIGHUP, or until `parent_pipe` closes; then stop it cleanly.

    `ready` is called when the broker accepts connections, `on_line` with every line that comes through `parent_pipe`.
    A temporary folder is removed, unless `keeps()` is True at the end.
    Raises BrokerStartError if the broker cannot start, or cannot continue because its disk has failed.
    """
    stop = threading.Event()
    serving = threading.Event()
    with ExitStack() as undo:
        undo.callback(lambda: None if keeps() else assembled.discard())
        _on_signals(stop, undo)  # before the slow import: an early signal must not leave a folder
        if parent_pipe is not None:
            _watch_parent(parent_pipe, stop, serving, on_line)
        raise_descriptor_limit()
        from streamactors.broker.server.server import Broker  # after the options have been checked

        if stop.is_set():
            return
        broker = Broker(assembled.config, assembled.folder, first=assembled.first)
        broker.failures.on_end = stop.set
        undo.callback(broker.stop)
        broker.node.receives_telemetry = metrics is not None
        broker.start()
        if metrics is not None:
            from streamactors.broker.http.metrics_endpoint import serve_metrics_of

            undo.callback(serve_metrics_of(broker.node, metrics).close)
        collect_seldom()
        serving.set()
        ready(broker)
        stop.wait()
        if broker.failures.ended is not None:
            raise BrokerStartError(broker.failures.ended)


def _on_signals(stop: threading.Event, undo: ExitStack) -> None:
    def asked(*_: Any) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue  # nohup: the broker must outlive its terminal
        undo.callback(signal.signal, number, signal.signal(number, asked))


def _watch_parent(
    pipe: int, stop: threading.Event, serving: threading.Event, on_line: Callable[[bytes], object]
) -> None:
    """Stop when the parent has ended: its end of the pipe closes, or this process gets another parent.

    A start that waits for a controller which has ended with the parent is aborted.

    The pipe shows the end at once. The check of the parent's id covers a third process that holds the pipe's other end open.
    """
    parent = os.getppid()

    def watch() -> None:
        with socket.socket(fileno=pipe) as end:
            end.settimeout(_PARENT_POLL_SECONDS)
            received = b""
            while os.getppid() == parent and not stop.is_set():
                try:
                    more = end.recv(4096)
                    if not more:
                        break
                    *lines, received = (received + more).split(b"\n")
                    for line in lines:
                        on_line(line)
                except TimeoutError:
                    continue
                except OSError:
                    break
        stop.set()
        if not serving.wait(_START_SECONDS):
            os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
