"""Selectors of a world: what a dispatcher and an asyncio loop sleep in. Both are woken by a flag, since a world has no sockets.

Owner: the patches. A dispatcher's `Waker` and poller, and the epoll object and the self-pipe of an asyncio loop, are replaced."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final

from streamactors.actors.dispatching import descriptors, dispatcher
from streamactors.actors.dispatching.poller import READABLE, Waker, new_poller
from streamactors.simulation.world.errors import NotSimulated
from streamactors.simulation.world.here import here
from streamactors.simulation.world.locks import until_us
from streamactors.simulation.world.task import Task

_FIRST_FD: Final = 1 << 20
_BaseLoop: Final = asyncio.selector_events.BaseSelectorEventLoop
_make_self_pipe = _BaseLoop._make_self_pipe  # type: ignore[attr-defined]
_close_self_pipe = _BaseLoop._close_self_pipe  # type: ignore[attr-defined]
_write_to_self = _BaseLoop._write_to_self  # type: ignore[attr-defined]
_numbers = count(_FIRST_FD)


class _Bell:
    """One sleeper, and whether it was rung since it last slept."""

    def __init__(self) -> None:
        self.rung = False
        self._sleeper: Task | None = None

    def ring(self) -> None:
        """Wake the sleeper, or spare it the next sleep."""
        self.rung = True
        sleeper, self._sleeper = self._sleeper, None
        scheduler = here()
        if sleeper is not None and scheduler is not None:
            scheduler.wake(sleeper)
            scheduler.has_woken()

    def sleep(self, timeout_s: float | None, waits: str) -> bool:
        """Wait for the bell, at most `timeout_s`; return whether it was rung, and forget that."""
        scheduler = here()
        if scheduler is not None and not self.rung:
            if timeout_s is not None and timeout_s <= 0:
                scheduler.give_way()
            else:
                self._sleeper = scheduler.current
                scheduler.park(waits, until_us(scheduler, timeout_s))
                self._sleeper = None
        rung, self.rung = self.rung, False
        return rung


class WorldWaker:
    """A dispatcher's waker without a descriptor. `fd` only names it."""

    def __new__(cls) -> Any:
        return super().__new__(cls) if here() is not None else Waker()

    def __init__(self) -> None:
        self.fd = next(_numbers)
        self.bell = _Bell()
        self.wake: Callable[[], None] = self.bell.ring
        _wakers[self.fd] = self

    def drain(self) -> bool:
        """The poller has forgotten the wake-ups already; there was one."""
        return True

    def close(self) -> None:
        """Forget the name."""
        _wakers.pop(self.fd, None)
        self.fd = -1


_wakers: dict[int, WorldWaker] = {}


class WorldPoller:
    """A dispatcher's poller: it knows the dispatcher's waker, and refuses everything else."""

    def __init__(self) -> None:
        self._waker: WorldWaker | None = None

    def register(self, fd: int, events: int) -> None:
        """Take the waker. Raises NotSimulated for a real descriptor."""
        if fd not in _wakers:
            raise NotSimulated(
                f"file descriptor {fd} is watched in a simulated world, which has no sockets and pipes; replace what opens it by "
                "a function of the test"
            )
        self._waker = _wakers[fd]

    def modify(self, fd: int, events: int) -> None:
        """The waker's events never change."""

    def unregister(self, fd: int) -> None:
        """Forget the waker."""

    def close(self) -> None:
        """Nothing is open."""

    def poll(self, timeout_s: float | None) -> list[tuple[int, int]]:
        """Wait until the dispatcher is woken."""
        waker = self._waker
        assert waker is not None
        if timeout_s == 0 and not waker.bell.rung:
            return []
        return [(waker.fd, READABLE)] if waker.bell.sleep(timeout_s, "work") else []


def world_poller() -> Any:
    """Return a poller: the world's, or a real one outside."""
    return WorldPoller() if here() is not None else new_poller()


class WorldEpoll:
    """What an asyncio loop's selector sleeps in."""

    def __new__(cls) -> Any:
        return super().__new__(cls) if here() is not None else _epoll()

    def __init__(self) -> None:
        self.bell = _Bell()
        self._fd = next(_numbers)

    def register(self, fd: int, events: int) -> None:
        """Refuse: a world has no sockets and pipes."""
        raise NotSimulated(
            f"an asyncio loop watches file descriptor {fd} in a simulated world, which has no sockets and pipes; replace what opens it "
            "by a function of the test"
        )

    modify = register

    def unregister(self, fd: int) -> None:
        """Nothing is registered."""

    def fileno(self) -> int:
        """Return a number that names the object."""
        return self._fd

    def close(self) -> None:
        """Nothing is open."""

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        """Wait until the loop is woken, or for `timeout` seconds. None and a negative one, as of a loop without timers: no limit."""
        if timeout == 0:
            self.bell.rung = False
        else:
            self.bell.sleep(timeout if timeout is None or timeout > 0 else None, "events of an asyncio loop")
        return []


_epoll: Any = getattr(selectors.EpollSelector, "_selector_cls", None) if hasattr(selectors, "EpollSelector") else None


def _make(loop: Any) -> None:
    if here() is None:
        _make_self_pipe(loop)
    else:
        loop._ssock = loop._csock = None


def _close(loop: Any) -> None:
    if loop._ssock is not None:
        _close_self_pipe(loop)


def _write(loop: Any) -> None:
    if loop._ssock is None and loop._selector is not None:
        loop._selector._selector.bell.ring()
    else:
        _write_to_self(loop)


class _InOrder(set[Any]):
    """Tasks of asyncio in the order of their creation, which their names tell."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__(), key=_number))


def _number(task: asyncio.Task[Any]) -> tuple[int, str]:
    name = task.get_name()
    number = name.removeprefix("Task-")
    return (int(number) if number.isdigit() else 0, name)


def _tasks_in_order(loop: asyncio.AbstractEventLoop | None = None) -> set[Any]:
    return _InOrder(_all_tasks(loop))


_all_tasks = asyncio.all_tasks


def replacements() -> list[tuple[object, object]]:
    """Return (original, replacement)."""
    return [(_all_tasks, _tasks_in_order)]


def attributes() -> list[tuple[object, str, object]]:
    """Return (object, attribute, replacement) for asyncio's loops. Raises NotSimulated on a system without epoll."""
    if _epoll is None:
        raise NotSimulated(
            "a world needs asyncio over epoll, which this operating system does not have; run it on Linux"
        )
    return [
        (selectors.EpollSelector, "_selector_cls", WorldEpoll),
        (_BaseLoop, "_make_self_pipe", _make),
        (_BaseLoop, "_close_self_pipe", _close),
        (_BaseLoop, "_write_to_self", _write),
        (dispatcher, "Waker", WorldWaker),
        (descriptors, "new_poller", world_poller),
    ]
