"""The process of `streamactors run --reload`: it runs the command, and drains when the pipe to its parent ends."""

from __future__ import annotations

import os
import signal
import sys
import threading

from streamactors.cli.main import main


def _watch(reader: int) -> None:
    os.read(reader, 1)  # nothing is written: it returns when the parent has ended
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_watch, args=(int(sys.argv[1]),), name="parent", daemon=True).start()
    main(["run", *sys.argv[2:]])
