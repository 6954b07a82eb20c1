"""Removes the greetings of a starting JVM from the terminal, and passes on everything else that it writes to standard error.

The JVM is started with a pipe as its standard error; a thread of this process reads the pipe as long as the JVM lives."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

_GREETINGS = (
    b"WARNING: Using incubator modules",
    b"Setting default log level to",
    b"To adjust logging level use",
    b"Setting Spark log level to",
    b"WARNING: package sun.security.action not in java.base",
    b"WARNING: A restricted method in java.lang",
    b"WARNING: A terminally deprecated method",
    b"WARNING: java.lang.System::load",
    b"WARNING: sun.misc.Unsafe",
    b"WARNING: Use --enable-native-access",
    b"WARNING: Restricted methods will be blocked",
    b"WARNING: Please consider reporting this",
    b"Using Spark's default log4j profile",
)


@contextmanager
def without_greetings() -> Iterator[deque[bytes]]:
    """Filter the standard error of processes that are started inside; yields the last lines that were passed on."""
    said: deque[bytes] = deque(maxlen=20)
    read, write = os.pipe()
    terminal = os.dup(2)
    sys.stderr.flush()
    os.dup2(write, 2)
    os.close(write)
    reader = threading.Thread(target=_forward, args=(read, terminal, said), name="spark stderr", daemon=True)
    reader.start()
    try:
        yield said
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)


def _forward(read: int, terminal: int, said: deque[bytes]) -> None:
    with os.fdopen(read, "rb", buffering=0) as lines, os.fdopen(terminal, "wb", buffering=0) as out:
        rest = b""
        while True:
            try:
                part = lines.read(1 << 16)
            except OSError:
                return
            *whole, rest = (rest + (part or b"")).split(b"\n")
            if not part and rest:
                whole.append(rest)
            for line in whole:
                if not line.startswith(_GREETINGS):
                    said.append(line)
                    try:
                        out.write(line + b"\n")
                    except OSError:
                        pass
            if not part:
                return
