"""Loaded by Python in every process that has this folder on its PYTHONPATH: faults of the disk and the clock on request, and planted bugs.

SIGUSR1 makes the next writes of a broker fail for want of space, for 2 s. SIGUSR2 makes its wall clock jump, forwards and backwards in turns.
STREAMACTORS_FORGETFUL_DISK names a folder that keeps what the broker has synced."""

from __future__ import annotations

import os
import sys

if "streamactors.broker.launch.child_process" in sys.orig_argv:
    from pathlib import Path

    from tests.faults.sabotage import faults, forgetful_files

    faults.install(os.environ.get("CHAOS_BUG", ""))
    if forgetful_files.SHADOW in os.environ:
        forgetful_files.install(Path(os.environ[forgetful_files.SHADOW]))
