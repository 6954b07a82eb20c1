"""A dispatcher: one thread with a mailbox, a selector and a timing wheel.

Owner: the loop thread. From other threads only `execute`, `submit`, `call_later`, `call_at`, `Timer.cancel`, `start`
and `stop` may be called. Sockets, the broker's network and every timer of a system run on dispatchers; code that blocks
needs a dispatcher of its own.

A round of the loop: due timers, then up to 1,000 queued functions, then the file descriptors that are ready. The loop
is woken through a file descriptor only while it sleeps.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Final

from streamactors.actors.cell import Cell, OnDeadLetter, OnError, Receive, log_dead_letter, log_error
from streamactors.actors.dispatching.descriptors import Callback, Descriptors, HasFileno, OnReady, name_of
from streamactors.actors.dispatching.poller import Waker
from streamactors.actors.dispatching.spinning import FRUITLESS_CALLS, SLEEPLESS_ROUNDS, report_spin
from streamactors.actors.dispatching.timing_wheel import Timer, TimingWheel
from streamactors.actors.threads import add_current_thread, left_behind_by_fork, remove_current_thread
from streamactors.clock import Clock, SystemClock, VirtualClock
from streamactors.errors import ActorError
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.actors")

_FUNCTIONS_PER_ROUND: Final = 1_000
_NEVER: Final = float("inf")
_LONGEST_SLEEP_S: Final = 3_600.0  # epoll refuses timeouts of more than 24 days
_new: Final = object.__new__


class DispatcherStopped(ActorError):
    """A function, cell or timer was given to a dispatcher that has ended."""


class _DispatcherTimer(Timer):
    __slots__ = ("_lock",)

    _lock: threading.RLock

    def cancel(self) -> bool:
        """Forget the timer; return whether it was still pending. Thread-safe, O(1)."""
        with self._lock:
            bucket = self._bucket
            if bucket is None:
                return False
            self._bucket = None
            del bucket[self]
            return True


class Dispatcher:
    """One loop thread. It starts with the first function, cell or timer, or by `start`."""

    def __init__(self, name: str, clock: Clock | None = None, *, daemon: bool = True) -> None:
        self.name = name
        self.clock: Clock = SystemClock() if clock is None else clock
        self._virtual = self.clock if isinstance(self.clock, VirtualClock) else None
        self._outside: Cell | None = None  # the cell whose turn waits for something that does not use the clock
        self._daemon = daemon
        self._thread: threading.Thread | None = None
        self._ident = 0
        self._stopping = False
        self._ended = False
        self._why_stopped = "is stopped; make a new one"
        self._life = threading.RLock()
        self._inbox: deque[Callback] = deque()
        # True while the loop may have to be woken: asleep, not yet started, or ended (then waking raises).
        self._asleep = True
        self._rounds = 0  # of the loop, and waits outside
        self._sleepless = 0  # rounds in succession without sleep and without work of a descriptor
        self._doing: Callback | None = None
        self._timer_lock = threading.RLock()  # re-entrant: a finalizer may cancel a timer at any moment
        self._wheel = TimingWheel(self.clock.now_ms)
        self._next_timer_ms = _NEVER
        # before the waker: if the waker cannot be made, the collector closes the poller; a bare descriptor would stay open
        self._descriptors = Descriptors(name)
        self._waker = Waker()
        self._descriptors.register(self._waker.fd, self._waker.drain)

    # ---- life ----

    def start(self) -> Dispatcher:
        """Start the loop thread; does nothing if it runs already. Raises DispatcherStopped after `stop`."""
        with self._life:
            if self._ended or self._stopping:
                self._inbox.clear()  # it will never run
                raise DispatcherStopped(f"dispatcher {self.name!r} {self._why_stopped}")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=self._daemon)
                self._asleep = False
                if self._virtual is not None:
                    self._virtual.attach(self)
                try:
                    self._thread.start()
                except RuntimeError as error:
                    self._thread, self._asleep = None, True
                    self._inbox.clear()
                    raise DispatcherStopped(f"dispatcher {self.name!r} cannot start its thread: {error}") from None
        return self

    def stop(self, timeout: float | None = 5.0) -> bool:
        """Run what is queued, then end the thread and forget timers and registrations.

        Waits up to `timeout` seconds and returns whether the thread has ended; False means that a callback does not
        return. On the loop thread itself it returns at once (True) and the loop ends after the current round.
        """
        with self._life:
            thread, self._stopping = self._thread, True
            if thread is None and not self._ended:
                self._end()
        if thread is None or self.in_thread():
            return True
        with self._life:
            if not self._ended:
                self._waker.wake()
        thread.join(timeout)
        return not thread.is_alive()

    @property
    def running(self) -> bool:
        """True while the loop thread runs."""
        return self._thread is not None and not self._ended

    @property
    def doing(self) -> str:
        """The name of the cell or function that runs, or ran last."""
        return name_of(self._doing)

    def in_thread(self) -> bool:
        """Whether the caller is on the loop thread."""
        return get_ident() == self._ident

    # ---- functions and cells ----

    def execute(self, fn: Callback) -> None:
        """Run `fn()` on the loop, after all functions given before. Thread-safe. Raises DispatcherStopped after `stop`."""
        self._inbox.append(fn)
        if self._asleep:
            self._wake()

    def submit(self, cell: Cell) -> None:
        """Give a cell a turn."""
        self.execute(cell)

    def spawn(
        self,
        receive: Receive,
        name: str,
        on_error: OnError = log_error,
        on_dead_letter: OnDeadLetter = log_dead_letter,
    ) -> Cell:
        """Make a cell whose messages are delivered on the loop thread."""
        return Cell(self, receive, name, on_error, on_dead_letter)

    # ---- timers ----

    def call_later(self, delay_ms: float, fn: Callback) -> Timer:
        """Run `fn()` on the loop in `delay_ms` milliseconds. Thread-safe, and so is the timer's `cancel`."""
        return self.call_at(self.clock.now_ms() + delay_ms, fn)

    def call_at(self, deadline_ms: float, fn: Callback) -> Timer:
        """Run `fn()` on the loop when the clock shows `deadline_ms`; equal deadlines run in the order set."""
        if self._ended:
            raise DispatcherStopped(f"dispatcher {self.name!r} {self._why_stopped}")
        timer: _DispatcherTimer = _new(_DispatcherTimer)
        timer.deadline_ms = deadline_ms
        timer.callback = fn
        timer._bucket = None
        timer._lock = self._timer_lock
        with self._timer_lock:
            self._wheel.add(timer)
            earlier = deadline_ms < self._next_timer_ms
            if earlier:
                self._next_timer_ms = deadline_ms
        if earlier and self._asleep:
            self._wake()
        return timer

    @property
    def pending_timers(self) -> int:
        """The exact number of timers that are neither fired nor cancelled."""
        with self._timer_lock:
            return len(self._wheel)

    # ---- file descriptors ----

    def register(
        self,
        fileobj: int | HasFileno,
        on_readable: OnReady | None = None,
        on_writable: OnReady | None = None,
        on_broken: Callback | None = None,
    ) -> None:
        """Call `on_readable()` while `fileobj` is readable, closed or broken, and `on_writable()` while it is writable.

        Each returns the amount of its work: bytes, connections or messages; 0 or None says that it had nothing to do.
        On the loop thread (or before the start) only. The registration stays until `unregister`; with both None only
        errors are watched for. `on_broken()` is called for an error that neither of them hears of, and the registration ends.
        Raises ValueError if it is registered already.
        """
        self._check_thread("register")
        self._descriptors.register(fileobj, on_readable, on_writable, on_broken)

    def modify(
        self, fileobj: int | HasFileno, on_readable: OnReady | None = None, on_writable: OnReady | None = None
    ) -> None:
        """Replace both callbacks of a descriptor. Loop thread only. Raises KeyError if it is not registered."""
        self._check_thread("modify")
        self._descriptors.modify(fileobj, on_readable, on_writable)

    def unregister(self, fileobj: int | HasFileno) -> None:
        """Forget a descriptor, best before it is closed. Loop thread only. Raises KeyError if it is not registered."""
        self._check_thread("unregister")
        self._descriptors.unregister(fileobj)

    def _check_thread(self, what: str) -> None:
        if get_ident() != self._ident and self._thread is not None:
            raise ActorError(f"dispatcher {self.name!r}: {what} belongs on the loop thread; use execute(lambda: …)")

    # ---- the loop ----

    def _wake(self) -> None:
        with self._life:
            if self._thread is None or self._ended:
                self.start()
            else:
                self._asleep = False
                self._waker.wake()  # under the lock: once the waker is closed, its number may belong to another file

    def _run(self) -> None:
        self._ident = get_ident()
        add_current_thread(self.name)
        try:
            while not self._stopping:
                self._round()
            self._run_functions(len(self._inbox))
        except BaseException as error:
            self._why_stopped = f"has ended by an error of its loop: {type(error).__name__}: {error}"
            _log.critical("dispatcher %r %s", self.name, self._why_stopped)
            raise  # threading.excepthook shows the traceback
        finally:
            self._end()
            remove_current_thread()

    def _round(self) -> None:
        self._rounds += 1
        if self._next_timer_ms <= self.clock.now_ms():
            self._fire_timers()
        self._run_functions()
        timeout_s: float | None = 0.0
        if not self._inbox:
            self._asleep = True
            # `execute` appends, then looks at _asleep; the loop sets _asleep, then looks at the inbox. So at least one of
            # them sees the other's change.
            if not self._inbox and not self._stopping:
                timeout_s = self._sleep_s()
        ready = self._descriptors.poll(timeout_s)
        self._asleep = False
        if (ready and self._descriptors.serve(ready, self._call)) or timeout_s != 0.0:
            self._sleepless = 0
        else:
            self._sleepless += 1
            if self._sleepless > SLEEPLESS_ROUNDS:
                self._look_for_spin()

    def _look_for_spin(self) -> None:
        """The loop has not slept for long. A cell has messages whenever it runs. Without one it is a function that queues itself, or a timer.

        Rounds look for cells only after that time, so that they cost no more."""
        if isinstance(self._doing, Cell) or any(isinstance(each, Cell) for each in list(self._inbox)):
            self._sleepless = 0
        elif self._sleepless == SLEEPLESS_ROUNDS + FRUITLESS_CALLS:
            self._sleepless = 0
            report_spin(self.name, name_of(self._doing), f"ran in {SLEEPLESS_ROUNDS:,} rounds without a sleep")

    def _sleep_s(self) -> float | None:
        """Return how long to sleep, in seconds; None: until woken. Virtual time does not pass during sleep."""
        if self._virtual is not None:
            if self._next_timer_ms <= self._virtual.now_ms():
                return 0.0
            self._virtual.notify()
            return None
        if self._next_timer_ms == _NEVER:
            return None
        return min(max(0.0, (self._next_timer_ms - self.clock.now_ms()) / 1000.0), _LONGEST_SLEEP_S)

    def _run_functions(self, at_most: int = _FUNCTIONS_PER_ROUND) -> None:
        inbox = self._inbox
        for _ in range(at_most):
            try:
                fn = inbox.popleft()
            except IndexError:
                return
            self._doing = fn
            try:
                fn()
            except BaseException as error:  # noqa: BLE001 - the loop must continue for others, also after SystemExit
                self._log_error(fn, error)

    def _fire_timers(self) -> None:
        now_ms = self.clock.now_ms()
        with self._timer_lock:
            due = self._wheel.collect(now_ms)
        for timer in due:
            if timer.cancel():  # claims the timer, unless it was cancelled meanwhile
                self._call(timer.callback)
        with self._timer_lock:
            next_ms = self._wheel.next_deadline_ms()
            self._next_timer_ms = _NEVER if next_ms is None else next_ms

    def _call(self, fn: Callback) -> object:
        self._doing = fn
        try:
            return fn()
        except BaseException as error:  # noqa: BLE001
            self._log_error(fn, error)
            return None

    def _log_error(self, fn: Callback, error: BaseException) -> None:
        what = type(error).__name__
        name = name_of(fn)
        log_limited(
            _log, logging.ERROR, (self.name, name, what),
            "dispatcher %r: %s raised %s: %s", self.name, name, what, error, exc_info=error,
        )  # fmt: skip

    def _end(self) -> None:
        with self._life:
            self._ended = True
            self._asleep = True
            self._descriptors.close()
            self._waker.close()
        if self._virtual is not None:
            self._virtual.detach(self)
        if self._inbox:
            _log.info("dispatcher %r: stopped with %d functions not run", self.name, len(self._inbox))

    def after_fork_in_child(self) -> None:
        """The loop thread stayed in the parent process: refuse everything, and close this process's copies."""
        self._life = threading.RLock()
        self._timer_lock = threading.RLock()
        self._thread = None
        self._inbox.clear()
        self._stopping = True
        self._why_stopped = left_behind_by_fork()
        self._end()

    # ---- virtual time ----

    def next_deadline_ms(self) -> float | None:
        """Return when the next timer is due, or earlier; None without timers. Thread-safe.

        The loop wakes at the same time: the wheel may name an earlier one than it did when a timer was set."""
        with self._timer_lock:
            next_ms = self._wheel.next_deadline_ms()
            self._next_timer_ms = _NEVER if next_ms is None else next_ms
            return next_ms

    def clock_moved(self) -> None:
        """Virtual time has moved: fire the due timers."""
        if self._next_timer_ms <= self.clock.now_ms():
            with self._life:
                if not self._ended:
                    self._asleep = False
                    self._waker.wake()

    @contextmanager
    def waiting_outside(self, cell: Cell) -> Iterator[None]:
        """For a turn of `cell` that waits for something outside, such as a network: meanwhile the dispatcher counts as quiet."""
        if self._virtual is None:
            yield
            return
        self._outside = cell
        self._virtual.notify()
        try:
            yield
        finally:
            self._rounds += 1
            self._outside = None

    def quiet_since(self) -> int | None:
        """Return the number of the round before this sleep; None while there is something to do."""
        outside = self._outside
        if outside is not None and outside.mailbox:
            return None
        if (not self._asleep and outside is None) or self._inbox or self._next_timer_ms <= self.clock.now_ms():
            return None
        return self._rounds

    def __repr__(self) -> str:
        state = "stopped" if self._ended else "running" if self._thread is not None else "not started"
        return f"<Dispatcher {self.name!r}, {state}>"
