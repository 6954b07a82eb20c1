"""CircuitBreaker: stops calling a service that fails, and tries it again after a while.

Owner of the state: the lock of the breaker. The rules are in breaker_state.py. A breaker belongs to no stream and no loop: streams, threads
and coroutines may share one."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from streamactors.clock import Clock, SystemClock
from streamactors.durations import Duration
from streamactors.engine.awaiting import can_be_awaited
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError, CircuitOpen, CircuitTimeout
from streamactors.log_limit import log_limited
from streamactors.stages.asynchronous.breaker_state import (
    Abandoned,
    Admitted,
    Asked,
    Circuit,
    CircuitRules,
    CircuitState,
    Event,
    Failed,
    Moved,
    Refused,
    Succeeded,
    step,
)
from streamactors.stages.checks import function, is_coroutine_function, plain_function, positive, span_ms
from streamactors.stages.restart_settings import RestartSettings

_log = logging.getLogger("streamactors.circuit")

State: TypeAlias = Literal["closed", "open", "half-open"]
"""What a breaker does: makes calls, refuses them, or has one call on trial."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class CircuitSnapshot:
    """What a circuit breaker does now."""

    name: str
    """The name of the breaker."""
    state: State
    """What it does."""
    failures: int
    """The failures in a row."""
    refused: int
    """The calls that were refused since the breaker was made."""
    retry_after_ms: float
    """The time until the next trial, in ms; 0 unless the circuit is open."""


class CircuitBreaker:
    """Refuses calls of a service after `max_failures` failures in a row, and lets one call through after `reset_timeout`.

    Closed: calls are made. A call fails when it raises, or lasts longer than `call_timeout`. After `max_failures` failures in a row the
    circuit opens: calls raise `CircuitOpen` at once, without a call. After `reset_timeout` the circuit is half-open: the next call is a
    trial, and others are still refused. When the trial succeeds the circuit closes; when it fails the circuit opens again, each time for twice
    as long, up to `max_reset_timeout`.

    `map_async(8, fn, breaker=breaker)` uses it in a stream; `breaker(fn)` returns a guarded function, also as a decorator. Any thread and
    any asyncio loop may call it. Each process has its own state, also where a breaker was sent to another process."""

    def __init__(
        self,
        name: str,
        *,
        max_failures: int = 5,
        call_timeout: Duration = "10s",
        reset_timeout: Duration = "30s",
        max_reset_timeout: Duration | None = None,
        random_factor: float = 0.0,
        fails_on: Callable[[BaseException], bool] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Durations are seconds, a timedelta, or a string such as "1s".

        `name`: for errors and log lines. `call_timeout`: a coroutine that lasts longer is cancelled and raises `CircuitTimeout`; a blocking function
        cannot be cancelled, so its result is returned, and counts as a failure. `max_reset_timeout`: the longest time that the circuit
        stays open, by default `reset_timeout`. `random_factor`: the largest random addition to that time, as a share of it.
        `fails_on(error)`: False for errors that are no failure of the service, such as a rejected request; by default every `Exception` is one.
        `clock`: the time, by default the machine's; in tests that of the system. Raises BuildError for a wrong argument."""
        if not isinstance(name, str) or not name:
            raise BuildError(
                f"CircuitBreaker: the name must be a string that is not empty, got {shortened(name, 60)}; errors and log lines show it"
            )
        label = f"CircuitBreaker {name}"
        longest = reset_timeout if max_reset_timeout is None else max_reset_timeout
        span_ms(label, "reset_timeout", reset_timeout)
        if span_ms(label, "max_reset_timeout", longest) < span_ms(label, "reset_timeout", reset_timeout):
            raise BuildError(f"{label}: max_reset_timeout {longest!r} is shorter than reset_timeout {reset_timeout!r}")
        backoff = RestartSettings(reset_timeout, longest, random_factor)
        self.name = name
        self._settings: dict[str, Any] = {
            "max_failures": positive(label, "max_failures", max_failures),
            "call_timeout": call_timeout,
            "reset_timeout": reset_timeout,
            "max_reset_timeout": max_reset_timeout,
            "random_factor": random_factor,
            "fails_on": None if fails_on is None else plain_function(f"{label}: fails_on", fails_on),
        }
        self._rules = CircuitRules(max_failures, span_ms(label, "call_timeout", call_timeout), backoff.delay_ms)
        self._fails_on = fails_on
        self._clock: Clock = SystemClock() if clock is None else clock
        self._lock = threading.Lock()
        self._circuit = Circuit()
        self._refused = 0
        self._listeners: list[Callable[[State, State], Any]] = []

    # ── guarded functions ─────────────────────────────────────────────────────────────────────────────────────────

    def __call__(self, fn: F) -> F:
        """Return `fn` with the breaker around it: a coroutine function for a coroutine function, a plain one for a plain one.

        A plain function may also return a future or an awaitable. Raises BuildError if `fn` cannot be called."""
        function(f"CircuitBreaker {self.name}", fn)
        guarded: Any = self._guarded_coroutine(fn) if is_coroutine_function(fn) else self._guarded_plain(fn)
        return functools.update_wrapper(guarded, fn)  # type: ignore[return-value]  # it has the parameters of fn

    def _guarded_coroutine(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        async def guarded(*args: Any, **named: Any) -> Any:
            return await self._watched(self._admit(), lambda: fn(*args, **named))

        return guarded

    def _guarded_plain(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **named: Any) -> Any:
            epoch = self._admit()
            began_ms = self._clock.now_ms()
            try:
                value = fn(*args, **named)
            except BaseException as error:
                self._step(self._outcome(epoch, error))
                raise
            if can_be_awaited(value):
                return self._watched(epoch, lambda: value)
            late = self._clock.now_ms() - began_ms > self._rules.call_timeout_ms
            self._step(Failed(epoch) if late else Succeeded(epoch))
            return value

        return guarded

    async def _watched(self, epoch: int, call: Callable[[], Any]) -> Any:
        timeout_ms = self._rules.call_timeout_ms
        limit = asyncio.timeout(timeout_ms / 1_000)
        try:
            async with limit:
                awaited = call()
                if isinstance(awaited, concurrent.futures.Future):
                    awaited = asyncio.wrap_future(awaited)
                value = await awaited
        except BaseException as error:
            if limit.expired() and isinstance(error, TimeoutError):
                self._step(Failed(epoch))
                raise CircuitTimeout(
                    f"circuit {self.name}: a call lasted longer than call_timeout, {timeout_ms:g} ms, and was cancelled"
                ) from None
            self._step(self._outcome(epoch, error))
            raise
        self._step(Succeeded(epoch))
        return value

    def _outcome(self, epoch: int, error: BaseException) -> Event:
        """Return what the error of a call says of the service."""
        if not isinstance(error, Exception):  # a cancellation, or the end of the process
            return Abandoned(epoch)
        if self._fails_on is not None and not self._fails_on(error):
            return Succeeded(epoch)
        return Failed(epoch)

    # ── the circuit ───────────────────────────────────────────────────────────────────────────────────────────────

    def _admit(self) -> int:
        """Return the epoch for a new call. Raises CircuitOpen."""
        for effect in self._step(Asked()):
            if isinstance(effect, Admitted):
                return effect.epoch
            if isinstance(effect, Refused):
                self._refused += 1
                raise self._open_error(effect.retry_after_ms)
        raise AssertionError("a call is admitted or refused")  # pragma: no cover

    def _open_error(self, retry_after_ms: float) -> CircuitOpen:
        circuit = self._circuit
        when = f"next trial in {retry_after_ms:.0f} ms" if retry_after_ms else "a trial runs"
        return CircuitOpen(
            f"circuit {self.name} is {circuit.state.value} after {circuit.failures} failures in a row, so the call was not made; {when}",
            name=self.name,
            retry_after_ms=retry_after_ms,
        )

    def _step(self, event: Event) -> list[Any]:
        """Apply an event; log the move and tell the listeners. Any thread."""
        with self._lock:
            self._circuit, effects = step(self._circuit, event, self._clock.now_ms(), self._rules)
            circuit = self._circuit
        for effect in effects:
            if isinstance(effect, Moved):
                self._tell(effect, circuit)
        return list(effects)

    def _tell(self, moved: Moved, circuit: Circuit) -> None:
        if moved.new is CircuitState.OPEN:
            open_ms = max(0.0, circuit.until_ms - self._clock.now_ms())
            _log.warning(
                "circuit %s is open for %.0f ms, after %d failures in a row and %d failed trials; calls are refused",
                self.name,
                open_ms,
                circuit.failures,
                circuit.failed_trials,
            )
        else:
            _log.info("circuit %s is %s", self.name, moved.new.value)
        for listener in tuple(self._listeners):
            try:
                listener(_told(moved.old), _told(moved.new))
            except Exception as error:  # noqa: BLE001  # the call keeps its own result or error
                cause, text = (self.name, type(error)), "circuit %s: on_change of %r raised %s: %s"
                log_limited(_log, logging.ERROR, cause, text, self.name, listener, type(error).__name__, error)

    # ── for the user ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def state(self) -> State:
        """ "closed", "open" or "half-open". An open circuit stays open until a call comes after the reset time."""
        return _told(self._circuit.state)

    def snapshot(self) -> CircuitSnapshot:
        """Return the state and the counts, as they are now."""
        circuit, now_ms = self._circuit, self._clock.now_ms()
        left_ms = max(0.0, circuit.until_ms - now_ms) if circuit.state is CircuitState.OPEN else 0.0
        return CircuitSnapshot(self.name, _told(circuit.state), circuit.failures, self._refused, left_ms)

    def on_change(self, fn: Callable[[State, State], Any]) -> None:
        """Call `fn(old state, new state)` after each move, on the thread of the call that caused it. It must return soon; its errors are logged."""
        self._listeners.append(plain_function(f"CircuitBreaker {self.name}: on_change", fn))

    def __repr__(self) -> str:
        return f"CircuitBreaker({self.name!r}, {self.state})"

    def __reduce__(self) -> Any:
        return _again, (self.name, self._settings)


def _told(state: CircuitState) -> State:
    return state.value


def _again(name: str, settings: dict[str, Any]) -> CircuitBreaker:
    """A breaker with the same settings in another process; it begins closed."""
    return CircuitBreaker(name, **settings)
