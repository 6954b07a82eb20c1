"""The loopback address on which the brokers of this test process listen.

A client tries the port of a broker that is gone again and again. The system may give that port to the broker of a test in another process: there the
client's requests would be counted, and its consumer would join a group of the same name. So each process has an address of its own."""

from __future__ import annotations

import os
import sys
from typing import Final

OF_THIS_PROCESS: Final = (
    # other systems have 127.0.0.1 alone
    f"127.{1 + os.getpid() % 199}.{os.getpid() // 199 % 199}.1" if sys.platform == "linux" else "127.0.0.1"
)
