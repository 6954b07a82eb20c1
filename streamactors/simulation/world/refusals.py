"""What a world refuses: sockets and processes, whoever asks for them. From Python 3.13 on also a sleep that reaches the operating system.
Threads that user code starts are not refused: they are tasks.

A refusal ends the run, whoever catches the error in the task.

Owner: the process. An audit hook hears of every such call, also of one whose function was bound before the world began. CPython has no way to take a
hook away, so it stays after the first world; it does nothing on threads outside a world."""

from __future__ import annotations

import sys
from typing import Any, Final

from streamactors.actors.workers.process import WorkerProcess
from streamactors.simulation.world.errors import NotSimulated
from streamactors.simulation.world.here import here

_SOCKET: Final = "a socket", "replace the client by a function or an object of the test"
_PROCESS: Final = "a process", "run the work in this process, or test it outside the simulation"
_REFUSED: Final[dict[str, tuple[str, str]]] = {
    "socket.__new__": _SOCKET,
    "socket.connect": _SOCKET,
    "socket.bind": _SOCKET,
    "socket.getaddrinfo": ("a look-up of a host", _SOCKET[1]),
    "socket.gethostbyname": ("a look-up of a host", _SOCKET[1]),
    "subprocess.Popen": _PROCESS,
    "os.fork": _PROCESS,
    "os.forkpty": _PROCESS,
    "os.posix_spawn": _PROCESS,
    "os.system": _PROCESS,
    "os.exec": _PROCESS,
    "pty.spawn": _PROCESS,
    "time.sleep": ("a sleep of the operating system", "call time.sleep by its name, which the world replaces"),
    "_thread.start_new_thread": ("a thread of the operating system", "start it by threading.Thread, which the world runs as a task"),
}  # fmt: skip
_installed = False


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    refused = _REFUSED.get(event)
    if refused is None:
        return
    scheduler = here()
    if scheduler is None or scheduler.current is None:
        return
    what, way_out = refused
    if event == "subprocess.Popen" and "spark" in str(arguments[:2]).lower():
        way_out = "Spark is not simulated; let the graph of the test end in a sink of the test"
    detail = f" ({arguments[0]!r})" if event == "subprocess.Popen" else ""
    raise scheduler.fail(
        NotSimulated(
            f"{event}{detail}: a simulated world has no {what.removeprefix('a ')}: {way_out}; asked for at {_caller()}"
        )
    )


def _caller() -> str:
    """The innermost line outside the standard library."""
    frame = sys._getframe(2)
    while frame.f_back is not None and _is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_library(file: str) -> bool:
    return file.startswith((sys.base_prefix, "<frozen")) and "site-packages" not in file


def _refuse(message: str) -> None:
    error = NotSimulated(message)
    scheduler = here()
    raise error if scheduler is None else scheduler.fail(error)


def _no_process(process: object, job: bytes) -> None:
    _refuse(
        "worker processes (map_parallel, with_processes, process=True) are not simulated: in the test, run the stage in this process by "
        "map_async or without process=True"
    )


def _no_client(module: Any, name: str) -> tuple[object, str, object]:
    real = getattr(module, name)

    def factory(*arguments: Any, **named: Any) -> Any:
        if here() is not None:
            _refuse(
                f"{name}: a simulated world has no connection to a real Kafka; use the clients of a SimulatedCluster; asked for at {_caller()}"
            )
        return real(*arguments, **named)

    factory.__name__ = name
    return module, name, factory


def attributes() -> list[tuple[object, str, object]]:
    """Return (class, attribute, replacement) for what is refused before it reaches the operating system."""
    found: list[tuple[object, str, object]] = [(WorkerProcess, "__init__", _no_process)]
    connector = sys.modules.get("streamactors.kafka.client.connection")
    if connector is not None:
        found += [_no_client(connector.ck, name) for name in ("Consumer", "Producer")]
        found.append(_no_client(connector.ck_admin, "AdminClient"))
    return found


def install() -> None:
    """Listen, once per process."""
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_hear)
