"""Exit codes of `streamactors run` that are neither success nor failure: what a shell reports for a process that a signal has ended."""

from __future__ import annotations

from typing import Final

INTERRUPTED: Final = 130
"""Ctrl-C."""
TERMINATED: Final = 143
"""SIGTERM, before sources that end by themselves had ended."""
