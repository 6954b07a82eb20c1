"""Runs at the start of each Python process that a test starts, because its folder is on PYTHONPATH: see `tests/watch/processes.py`.

The process writes what the product logs at WARNING or above into <folder>/<pid>.log, a line of JSON per record, and the stack of a crash
into <folder>/<pid>.fault. Nothing of the product is imported."""

import os

_FOLDER = os.environ.get("STREAMACTORS_WATCHED_IN")


def _watch(folder: str) -> None:
    import faulthandler
    import json
    import logging
    import sys
    import time

    # a number, not a file: it stays open until the process ends, and -X dev would report a file
    faulthandler.enable(os.open(os.path.join(folder, f"{os.getpid()}.fault"), os.O_WRONLY | os.O_CREAT, 0o600))
    handle = logging.Logger.handle

    def noted(logger: logging.Logger, record: logging.LogRecord) -> None:
        ours = record.name.startswith("streamactors") and record.name != "streamactors.kafka.librdkafka"
        if ours and record.levelno >= logging.WARNING:
            try:
                line = json.dumps(
                    [
                        record.name,
                        record.levelname,
                        str(record.msg),
                        record.getMessage(),
                        time.monotonic(),
                        sys.argv[:4],
                    ]
                )
                with open(os.path.join(folder, f"{os.getpid()}.log"), "a") as log:
                    log.write(line + "\n")
            except Exception:
                pass
        handle(logger, record)

    logging.Logger.handle = noted  # type: ignore[method-assign]


if _FOLDER and os.path.isdir(_FOLDER):
    _watch(_FOLDER)
