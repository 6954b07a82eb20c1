"""One member of `streamactors run --processes N`: what it tells the process that has started it.

A member is the same command without `--processes`. It inherits one end of a socket pair: over it the parent asks for the member's metrics and for the address
of its page, and when the parent ends, the closed socket lets the member drain as SIGTERM does."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from threading import Thread
from typing import Final

NUMBER: Final = "STREAMACTORS_MEMBER"
"""Set in a member to its number, from 0; a graph may use it, for a folder of its own for example."""
SOCKET: Final = "STREAMACTORS_MEMBER_SOCKET"
ASK: Final = b"m"
"""Asks for the metrics."""
ASK_PAGE: Final = b"p"
"""Asks for the address of the live page, which is served from the first question on."""
LENGTH: Final = Struct("<I")
MAX_ANSWER: Final = 64 << 20


def member_number() -> str | None:
    """Return "2" in member 2, None in an ordinary run."""
    return os.environ.get(NUMBER) if SOCKET in os.environ else None


def member_name() -> str:
    """Return "[2]" in member 2, nothing in an ordinary run; it follows the program's name in its lines."""
    number = member_number()
    return "" if number is None else f"[{number}]"


@contextmanager
def answering(metrics: Callable[[], bytes], page: Callable[[], bytes] = bytes) -> Iterator[None]:
    """While the block runs, answer the parent's questions for `metrics()` and `page()`. Nothing happens in an ordinary run."""
    fd = os.environ.get(SOCKET)
    if fd is None:
        yield
        return
    os.set_inheritable(int(fd), False)
    with socket.socket(fileno=os.dup(int(fd))) as end:
        ending: list[bool] = []
        thread = Thread(target=_answer, args=(end, metrics, page, ending), name="answers for the parent", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ending.append(True)
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the parent has ended
            thread.join()


def _answer(end: socket.socket, metrics: Callable[[], bytes], page: Callable[[], bytes], ending: list[bool]) -> None:
    while True:
        try:
            asked = end.recv(1)
            if not asked:
                break
            answer = page() if asked == ASK_PAGE else metrics()
            end.sendall(LENGTH.pack(len(answer)) + answer)
        except OSError:
            break
    if not ending:
        os.kill(os.getpid(), signal.SIGTERM)  # the parent has ended: drain
