"""The loopback address on which this test process listens with each `Cluster` that has no `listen` of its own.

A client keeps trying the port of a broker that has ended. The system may give that port to a broker of another test process. That broker would count
the client's requests, and the client would join another test's group of the same name. So each process has an address of its own."""

from __future__ import annotations

import os
import sys
from typing import Final

OF_THIS_PROCESS: Final = (
    # other systems have 127.0.0.1 alone
    f"127.{1 + os.getpid() % 199}.{os.getpid() // 199 % 199}.1" if sys.platform == "linux" else "127.0.0.1"
)
