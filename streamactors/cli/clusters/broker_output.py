"""What `streamactors broker` prints and logs, with one process as with several."""

from __future__ import annotations

import logging
import os
import sys

import click


def say(line: str) -> None:
    """Print a line, or log that it cannot be printed."""
    try:
        click.echo(line)
    except OSError as error:  # the pipe is closed, or its disk is full: no reason for a broker to end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains at its end
        logging.getLogger("streamactors.broker").warning("cannot print (%s): %s", error.strerror, line)
