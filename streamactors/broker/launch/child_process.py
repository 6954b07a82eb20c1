"""A broker in a child process, which ends when its parent ends.

Owner: `Cluster(process=True)`. Parent and child share a socket. The parent sends the arguments of the broker, and the child
answers with its addresses or an error. It acknowledges each later message, by its number, after carrying it out. When the
socket closes, the child stops; it also closes if the parent is killed.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import streamactors
from streamactors.broker.errors import BrokerStartError

if TYPE_CHECKING:
    from streamactors.broker.server.server import Broker

_log = logging.getLogger("streamactors.broker.launch")

START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 60.0
"""How long a process may take to close its logs. Thousands of them on a busy disk need more than a few seconds."""

TELL_TIMEOUT_S: Final = 30.0
ASK_TIMEOUT_S: Final = 5.0
MAX_MESSAGE: Final = 1 << 20


class ChildBroker:
    """Starts when it is made; `close` stops it. With `wait=False` it is not ready until `await_ready` has returned."""

    def __init__(self, arguments: Mapping[str, Any], *, wait: bool = True) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streamactors.broker.launch.child_process", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the parent, which then closes the broker in order
                env={**os.environ, "PYTHONPATH": _import_path()},
            )
        self._socket = ours
        self._told = self._followed = 0  # numbers of the last message and of the last answer to one
        self._asked = 0  # number of the last question
        self._internals: dict[str, Any] | None = None
        self._telling = threading.Lock()
        self._received = b""
        self._answers = threading.Lock()  # one thread reads the answers at a time
        self._temporary: Path | None = None
        self.pid = self._process.pid
        with suppress(OSError):  # the process has ended; `await_ready` says so
            ours.sendall(json.dumps(arguments).encode() + b"\n")
        if wait:
            try:
                self.await_ready()
            except BaseException:
                self.kill()  # an interrupted start
                raise

    def await_ready(self) -> None:
        """Return when the process serves clients. Raises BrokerStartError when it cannot; then it has ended."""
        try:
            answer = _read_message(self._socket, START_TIMEOUT_S)
        except TimeoutError:
            self.close()
            raise BrokerStartError(
                f"the broker's process was not ready within {START_TIMEOUT_S:g} s and was stopped (exit code "
                f"{self._process.returncode}); its standard error says what it waited for"
            ) from None
        except (OSError, ValueError) as error:
            self.close()
            raise BrokerStartError(
                f"the broker's process ended before it was ready ({error or type(error).__name__}, exit code "
                f"{self._process.returncode}); its standard error says why"
            ) from None
        if "error" in answer:
            self.close()
            raise BrokerStartError(answer["error"])
        self.bootstrap_servers: str = answer["bootstrap_servers"]
        self.local_address: str = answer["local_address"]
        self.cluster_id: str = answer["cluster_id"]
        self.data_folder = Path(answer["data_folder"])
        self.ports: list[int] = answer["ports"]
        if answer["temporary"]:
            self._temporary = self.data_folder

    def arguments_again(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a broker at the same address with the same data."""
        from streamactors.broker.launch.embedded import same_place

        return same_place(arguments, self.ports, self.data_folder, temporary=self._temporary is not None)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send the process a message, a line of JSON. It is lost if the process has ended."""
        self._send(message)

    def _send(self, message: Mapping[str, Any]) -> int:
        with self._telling:
            self._told += 1
            with suppress(OSError):
                self._socket.sendall(json.dumps({**message, "number": self._told}).encode() + b"\n")
            return self._told

    def internals(self) -> dict[str, Any] | None:
        """Return what the broker knows of itself, see `broker/server/internals.py`; None if its process does not answer within five seconds."""
        with self._answers:
            if self._asked <= self._followed:  # else it has not answered the last question: it is paused, or very busy
                self._internals = None
                self._asked = self._send({"ask": "internals"})
            try:
                self._read_answers(self._asked, ASK_TIMEOUT_S)
            except TimeoutError:
                return None
            return self._internals

    def await_followed(self) -> None:
        """Wait until the process has carried out every message, or has ended. Raises TimeoutError."""
        with self._answers:
            self._read_answers(self._told, TELL_TIMEOUT_S)

    def _read_answers(self, number: int, timeout_s: float) -> None:
        try:
            self._socket.settimeout(timeout_s)
            while self._followed < number:
                more = self._socket.recv(65536)
                if not more:
                    return
                *lines, self._received = (self._received + more).split(b"\n")
                for line in lines:
                    answer = json.loads(line)
                    self._followed = answer["followed"]
                    self._internals = answer.get("internals", self._internals)
        except TimeoutError:
            raise TimeoutError(
                f"the broker's process {self.pid} has not changed its links after {timeout_s:g} s"
            ) from None
        except OSError:  # the process was killed
            return

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process, None while it runs. A signal N ends it with -N."""
        return self._process.poll()

    def pause(self) -> None:
        """Stop every thread of the process, with SIGSTOP. Returns when they have stopped, or when the process has ended.

        `os.kill` returns before the threads have stopped: a running thread continues until another thread has handled the signal."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let the threads of a paused process continue."""
        os.kill(self.pid, signal.SIGCONT)

    def abandon(self) -> None:
        """End the process at once. A thread in `await_ready` gets the error; without such a thread, call `close` afterwards."""
        self._process.kill()

    def kill(self) -> None:
        """End the process at once; its folder stays as it is."""
        self._process.kill()
        self._process.wait()
        self._socket.close()

    def close(self, *, keep: bool = False) -> None:
        """Stop the process, or kill it if it does not stop in time or the wait is interrupted; remove a temporary folder, unless it is to `keep`."""
        if keep:
            self.tell({"keep": True})
            self.await_followed()
        with suppress(OSError):  # the child has closed it already
            self._socket.shutdown(socket.SHUT_RDWR)  # the child sees this even if a fork of this process holds a copy
        self._socket.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _log.error(
                "the broker's process %d did not stop within %g s and is killed; its next start recovers its logs",
                self.pid,
                STOP_TIMEOUT_S,
            )
            self._process.kill()
            self._process.wait()
        except BaseException:  # interrupted: nobody waits for the process any more
            self._process.kill()
            self._process.wait()
            raise
        finally:
            if self._temporary is not None and not keep:  # the child has removed it, unless it was killed
                shutil.rmtree(self._temporary, ignore_errors=True)


def _import_path() -> str:
    root = str(Path(streamactors.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([root, inherited] if inherited else [root])


def _read_message(end: socket.socket, timeout_s: float | None) -> dict[str, Any]:
    """Return one JSON line. Raises OSError if the socket closes or times out, ValueError if the line is not JSON."""
    end.settimeout(timeout_s)
    line = bytearray()
    while not line.endswith(b"\n"):
        more = end.recv(65536)
        if not more:
            raise ConnectionError("the other process closed the socket")
        line += more
        if len(line) > MAX_MESSAGE:
            raise ValueError(f"a message of more than {MAX_MESSAGE} bytes")
    end.settimeout(None)
    message: dict[str, Any] = json.loads(line)
    return message


def _child(descriptor: int) -> int:
    """Run the broker that the parent describes; return the exit code."""
    from streamactors.broker.launch.embedded import assemble_arguments, bootstrap_servers, local_address, ports
    from streamactors.broker.launch.standalone import run
    from streamactors.errors import StreamActorsError
    from streamactors.json_log import configure

    os.set_inheritable(descriptor, False)
    with socket.socket(fileno=os.dup(descriptor)) as end:
        try:
            arguments = _read_message(end, START_TIMEOUT_S)
        except ConnectionError:  # the parent has ended
            return 1
        if "log" in arguments:
            configure(**arguments["log"])
        if "links" in arguments:
            from streamactors.broker.network.outgoing.links import LINKS

            LINKS.follow(arguments["links"])
        try:
            assembled, metrics = assemble_arguments(arguments)
            served: list[Broker] = []
            kept: list[Path] = []

            def ready(broker: Broker) -> None:
                served.append(broker)
                answer = {
                    "bootstrap_servers": bootstrap_servers(broker),
                    "local_address": local_address(broker),
                    "cluster_id": broker.node.cluster_id,
                    "data_folder": str(assembled.folder),
                    "temporary": assembled.temporary,
                    "ports": ports(broker),
                }
                _tell(end, answer)

            def told(line: bytes) -> None:
                from streamactors.broker.network.outgoing.links import LINKS

                message = json.loads(line)
                if message.get("ask") == "internals":
                    _tell(end, {"followed": message["number"], "internals": _internals(served)})
                    return
                if message.get("keep"):
                    kept.append(assembled.folder)
                else:
                    LINKS.follow(message)
                _tell(end, {"followed": message["number"]})

            keeps = partial(bool, kept)
            run(assembled, ready, metrics=metrics, parent_pipe=descriptor, on_line=told, keeps=keeps)
        except StreamActorsError as error:
            _tell(end, {"error": str(error)})
            return 2
    return 0


def _internals(served: list[Broker]) -> dict[str, Any] | None:
    """Return what the broker knows of itself; None before it serves, or if its data plane does not answer."""
    from streamactors.broker.server.internals import look_into

    return look_into(served[0].internals) if served else None


def _tell(parent: socket.socket, message: dict[str, Any]) -> None:
    """Send the parent a line. If the parent has ended, the closed socket stops the broker."""
    with suppress(ConnectionError):
        parent.sendall(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(_child(int(sys.argv[1])))
