"""Runs tests in forked children of a warm process: third-party modules are imported once, and the product too where that is possible.

    python -m mutation.server hot|cold        one JSON command per line on stdin, one JSON answer per line on stdout

A command names tests and, with a mutant, the changed file and its text. A child of the **hot** server has the whole product imported; it
exchanges the code of the changed function in all function objects that have it. That is not possible for module level, class bodies and
functions that have run at import: a child of the **cold** server imports the product itself and gets the changed text.

A test that runs for longer than its limit ends the child. All processes that a child leaves behind are killed with it."""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import pkgutil
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

_SUBREAPER = 36
_MEMORY = 4 << 30
"""Bytes of data that a child may have: a mutant may loop forever and keep what it makes."""
LEAST_S = 20.0
SPARK_S = 120.0
"""Every test has at least this time. The first Spark test of a child starts a session, which was there already when the test was recorded."""

_NOT_NEEDED = ("xdist", "cacheprovider", "randomly", "pytest_cov", "anyio")

_functions_of: dict[str, list[FunctionType]] = {}
"""All functions of the product by their file; only the hot server has them."""


def main(kind: str) -> None:
    """Serve commands until stdin ends."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _warm(kind == "hot")
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), file=answers, flush=True)


def _warm(whole_product: bool) -> None:
    for name in (
        "pytest",
        "hypothesis",
        "hypothesis.stateful",
        "_hypothesis_pytestplugin",
        "confluent_kafka",
        "confluent_kafka.admin",
    ):
        importlib.import_module(name)
    for name in (
        "thespian.actors",
        "reactivex.operators",
        "msgpack",
        "prometheus_client",
        "rich.console",
        "click",
        "kio",
        "crc32c",
        "cramjam",
    ):
        importlib.import_module(name)
    if whole_product:
        import streamactors

        for module in pkgutil.walk_packages(streamactors.__path__, "streamactors."):
            if not any(part in module.name for part in (".demo", ".spark", "__main__")):
                importlib.import_module(module.name)
        for thing in gc.get_objects():
            if type(thing) is FunctionType:
                _functions_of.setdefault(thing.__code__.co_filename, []).append(thing)
    gc.collect()
    gc.freeze()  # no collection of a child walks what all of them share


def _run(command: dict[str, Any]) -> dict[str, Any]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with suppress(BaseException):
            _child(command, write)
        os._exit(99)
    os.close(write)
    try:
        return _watch(command, read, child)
    finally:
        os.close(read)
        _end(child)


def _watch(command: dict[str, Any], read: int, child: int) -> dict[str, Any]:
    """Follow the child's reports. The answer tells how it ended: passed, failed, hung, swap (impossible here) or broken."""
    limits: dict[str, float] = command["tests"]
    last, buffer, failed, ended = "", b"", "", -1
    until = time.monotonic() + 120
    while True:
        ready, _, _ = select.select([read], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return {"how": "hung", "test": last}
        got = os.read(read, 65536)
        if not got:
            break
        buffer += got
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            what, _, rest = line.decode().partition(" ")
            if what == "start":
                last = rest
                least_s = SPARK_S if "/spark/" in last else LEAST_S
                until = time.monotonic() + max(limits.get(last, 0), limits.get(last.split("::")[0], 0), least_s)
            elif what == "failed":
                failed = failed or rest
            elif what == "exit":
                ended = int(rest)
                until = time.monotonic() + 5
            elif what == "swap":
                return {"how": "swap", "test": ""}
        if ended >= 0:
            break
    if failed:
        return {"how": "failed", "test": failed}
    return {"how": "passed" if ended in (0, 5) else "broken" if ended < 0 or ended == 4 else "failed", "test": last}


def _end(child: int) -> None:
    """Kill the child and all that it has started, also what has a session of its own: orphans become children of this process."""
    for _ in range(20):
        found = {child, *_children()}
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in found:  # not any child: an orphan may have become one that is still to be killed
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        if not _children():
            return


def _children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


class _Reports:
    """pytest plugin of the child: tells the server which test runs, and which failed."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def say(self, text: str) -> None:
        os.write(self.pipe, f"{text}\n".encode())

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.say(f"start {nodeid}")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.say(f"failed {report.nodeid}")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.say(f"exit {int(exitstatus)}")


def _child(command: dict[str, Any], pipe: int) -> None:
    os.setsid()
    log = os.open("last.log", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    null = os.open(os.devnull, os.O_RDONLY)
    for at, file in ((0, null), (1, log), (2, log)):
        os.dup2(file, at)
    reports = _Reports(pipe)
    if not any("/spark/" in test for test in command["tests"]):
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    if command["file"] and not _put(command):
        reports.say("swap")
        return
    import pytest
    from hypothesis import HealthCheck, Phase, settings

    quick = [Phase.explicit, Phase.generate]  # a failure need not be made small
    settings.register_profile(
        "mutants", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, phases=quick
    )
    without = [part for name in _NOT_NEEDED for part in ("-p", f"no:{name}")]
    options = ["-x", "-q", *without, "--timeout", "0", "-m", command["marks"], "--hypothesis-profile=mutants"]
    code = pytest.main([*options, *command["tests"]], plugins=[reports])
    reports.say(f"exit {int(code)}")  # reached when no test was collected
    time.sleep(60)  # the server ends this process; threads that a mutant has left behind cannot hold it up


def _put(command: dict[str, Any]) -> bool:
    """Put the changed text in place. Returns False when this process has run the function before."""
    if "streamactors" not in sys.modules:
        sys.meta_path.insert(0, _Changed(command["file"], command["text"]))
        return True
    path = os.path.abspath(command["file"])
    if not any(getattr(module, "__file__", None) == path for module in list(sys.modules.values())):
        sys.meta_path.insert(0, _Changed(command["file"], command["text"]))
        return True
    new: dict[tuple[str, int], CodeType | None] = {}
    for code in _codes(compile(command["text"], path, "exec", dont_inherit=True)):
        new[_place(code)] = None if _place(code) in new else code  # two lambdas in one line have one name
    outermost = command["function"]
    done = 0
    for function in _functions_of.get(path, ()):
        code = function.__code__
        if _within(code.co_qualname, outermost):
            other = new.get(_place(code))
            if other is None or other.co_freevars != code.co_freevars:
                return False
            function.__code__ = other
            done += 1
    return done > 0


def _within(name: str, outermost: str) -> bool:
    plain = name.replace(".<locals>", "")
    return plain == outermost or plain.startswith(f"{outermost}.") or outermost.startswith(f"{plain}.")


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _codes(part)


class _Changed(importlib.abc.MetaPathFinder):
    """Imports one file with its changed text."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        own = self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if name != own:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin:
            spec.loader = _Text(name, spec.origin, self.text)
        return spec


class _Text(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType | None:
        return compile(self.text, self.path, "exec", dont_inherit=True)


if __name__ == "__main__":
    main(sys.argv[1])
