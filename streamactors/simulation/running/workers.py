"""Seeds in several processes of this machine, each a fork of this one: a body is a function of the test and cannot be sent.

Owner: whoever tries seeds. A worker sends a few facts of each run; the parent runs a failing seed again for the rest."""

from __future__ import annotations

import os
import pickle
import struct
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from selectors import EVENT_READ, DefaultSelector
from typing import Any, Final, NamedTuple

from streamactors.simulation.face.case import Broken, Outcome
from streamactors.simulation.world.errors import SimulationError

_LENGTH: Final = struct.Struct("!I")


class WorkerFailed(SimulationError):
    """A worker process ended without an outcome of its seed."""


class Short(NamedTuple):
    """What is needed of every run. `error`: why there is no outcome."""

    seed: int
    broken: Broken | None
    digest: str
    reached: frozenset[str]
    sought: frozenset[str]
    error: str = ""


def short_of(seed: int, outcome: Outcome) -> Short:
    """Return the facts of an outcome."""
    return Short(seed, outcome.broken, outcome.digest, outcome.reached, outcome.sought)


def in_processes(
    run: Callable[[int], Outcome], seeds: Iterable[int], jobs: int, is_over: Callable[[], bool]
) -> Iterator[Short]:
    """Yield the facts of the seeds, in the order of the seeds, though workers end in another. Raises WorkerFailed."""
    every = list(seeds)
    selector = DefaultSelector()
    workers: list[tuple[int, int]] = []
    try:
        for number in range(min(jobs, len(every))):
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(read)
                _work(run, every[number::jobs], write)
            os.close(write)
            workers.append((pid, read))
            selector.register(read, EVENT_READ, bytearray())
        yield from _in_order(selector, every, is_over)
    finally:
        for pid, read in workers:
            os.close(read)  # a worker that writes ends by SIGPIPE
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        selector.close()


def _in_order(selector: DefaultSelector, seeds: list[int], is_over: Callable[[], bool]) -> Iterator[Short]:
    known: dict[int, Short] = {}
    at = 0
    while at < len(seeds):
        if not selector.get_map():
            raise WorkerFailed(
                f"the worker of seed {seeds[at]} ended without an outcome; try it alone: --sim-seed={seeds[at]}"
            )
        for key, _ in selector.select():
            data = os.read(key.fd, 1 << 16)
            if not data:
                selector.unregister(key.fd)
                continue
            key.data.extend(data)
            for short in _messages(key.data):
                known[short.seed] = short
        while at < len(seeds) and seeds[at] in known:
            short = known.pop(seeds[at])
            if short.error:
                raise WorkerFailed(f"seed {short.seed}: {short.error}")
            yield short
            at += 1
        if is_over():
            return


def _messages(data: bytearray) -> Iterator[Short]:
    while len(data) >= _LENGTH.size:
        (size,) = _LENGTH.unpack_from(data)
        if len(data) < _LENGTH.size + size:
            return
        message: Any = pickle.loads(data[_LENGTH.size : _LENGTH.size + size])  # noqa: S301  # of a fork of this process
        del data[: _LENGTH.size + size]
        yield message


def _work(run: Callable[[int], Outcome], seeds: list[int], write: int) -> None:
    """The whole life of a worker."""
    code = 0
    try:
        for seed in seeds:
            try:
                short = short_of(seed, run(seed))
            except Exception as error:  # noqa: BLE001  # the parent raises it
                short = Short(seed, None, "", frozenset(), frozenset(), f"{type(error).__name__}: {error}")
            data = pickle.dumps(short)
            sent = _LENGTH.pack(len(data)) + data
            while sent:
                sent = sent[os.write(write, sent) :]
    except BaseException:  # noqa: BLE001  # nobody is above to hear of it
        traceback.print_exc(file=sys.__stderr__)
        code = 1
    finally:
        os._exit(code)
