"""Exit codes that nobody looked at: a process of ours has failed, in a test that does not know it.

A process that runs Python, or whose command names `streamactors`, fails the test if its exit code is not 0 and nobody used the code: `returncode`,
the result of `wait` or `poll`, or a CalledProcessError. A call whose result is dropped, or only compared with None, does not count. A signal
that this process sent is no fault. A test whose process fails on purpose may also say so with the marker `expects_exit_code`."""

from __future__ import annotations

import dis
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Container
from functools import wraps
from types import FrameType
from typing import Any, NamedTuple

import pytest

_OF_SUBPROCESS = subprocess.__file__


class _Ended(NamedTuple):
    """A process that ended with another code than 0."""

    arguments: Any
    code: int


class ExitCodes:
    """Notes how every `Popen` ends, until its code is read."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        # by the id of `args`, which Popen, CompletedProcess and CalledProcessError share
        self._unread: dict[int, _Ended] = {}
        self._sent: dict[int, set[int]] = {}  # the exit codes of the signals that were sent to a process

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Watch from now on."""
        popen = subprocess.Popen
        ended, kill, killpg = popen._handle_exitstatus, os.kill, os.killpg  # type: ignore[attr-defined]

        def noted(process: Any, *arguments: Any, **named: Any) -> None:
            ended(process, *arguments, **named)
            if sys._getframe(1).f_code.co_name != "_execute_child":  # no program was started, and Popen raises that
                self._has_ended(process)

        def kills(send: Callable[[int, int], None]) -> Callable[[int, int], None]:
            @wraps(send)
            def sends(pid: int, number: int) -> None:
                with self._lock:
                    self._sent.setdefault(pid, set()).update((-number, 128 + number))
                send(pid, number)

            return sends

        patch.setattr(popen, "_handle_exitstatus", noted)
        patch.setattr(popen, "wait", self._read_by_result(popen.wait))
        patch.setattr(popen, "poll", self._read_by_result(popen.poll))
        for kind in (popen, subprocess.CompletedProcess):
            patch.setattr(kind, "returncode", self._read_by_attribute(), raising=False)
        patch.setattr(subprocess.CalledProcessError, "__init__", self._read_by_error())
        patch.setattr(os, "kill", kills(kill))
        patch.setattr(os, "killpg", kills(killpg))

    def _has_ended(self, process: Any) -> None:
        code = process.returncode
        with self._lock:
            sent = self._sent.pop(process.pid, set())
            if code and is_ours(process.args) and code not in sent:
                self._unread[id(process.args)] = _Ended(process.args, code)

    def has_read(self, arguments: Any) -> None:
        """The test knows how the process of these arguments ended."""
        with self._lock:
            self._unread.pop(id(arguments), None)

    def _read_by_attribute(self) -> property:
        def read(process: Any) -> Any:
            if _is_outside(sys._getframe(1)):
                self.has_read(process.args)
            try:
                return process.__dict__["returncode"]
            except KeyError:
                raise AttributeError("returncode") from None

        def write(process: Any, code: Any) -> None:
            process.__dict__["returncode"] = code

        return property(read, write)

    def _read_by_result(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def waits(process: Any, *arguments: Any, **named: Any) -> Any:
            code = method(process, *arguments, **named)
            if code is not None:
                caller = sys._getframe(1)
                if _is_outside(caller) and _uses_result(caller):
                    self.has_read(process.args)
            return code

        return waits

    def _read_by_error(self) -> Callable[..., None]:
        make = subprocess.CalledProcessError.__init__

        @wraps(make)
        def makes(error: Any, returncode: int, cmd: Any, *arguments: Any, **named: Any) -> None:
            make(error, returncode, cmd, *arguments, **named)
            self.has_read(cmd)

        return makes

    def take(self, expected: Container[int] = ()) -> list[str]:
        """Return a sentence for each process whose code nobody has used, since the last call."""
        with self._lock:
            unread, self._unread = self._unread, {}
        return [
            f"{_shown(each.arguments)} ended with {_named(each.code)}, and nobody used its exit code"
            for each in unread.values()
            if each.code not in expected
        ]


def is_ours(arguments: Any) -> bool:
    """Whether a command starts Python or the product."""
    words = [arguments] if isinstance(arguments, (str, bytes, os.PathLike)) else list(arguments)
    words = [os.fsdecode(word) for word in words]
    return any("streamactors" in word for word in words) or os.path.basename(words[0]).startswith("python")


def _is_outside(frame: FrameType) -> bool:
    """Whether a frame does not belong to `subprocess` itself."""
    return frame.f_code.co_filename != _OF_SUBPROCESS


def _uses_result(frame: FrameType) -> bool:
    """Whether the code that has made a call keeps the result. It does not if it drops the result or jumps when that is None."""
    following = next((each for each in dis.get_instructions(frame.f_code) if each.offset > frame.f_lasti), None)
    drops = following is None or following.opname == "POP_TOP" or "NONE" in following.opname
    return not drops and not (following.opname == "LOAD_CONST" and following.argval is None)


def _shown(arguments: Any) -> str:
    return " ".join(map(str, arguments))[:200] if isinstance(arguments, (list, tuple)) else str(arguments)[:200]


def _named(code: int) -> str:
    try:
        return f"exit code {code}" if code > 0 else signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
