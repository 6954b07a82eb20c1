"""A shape fails on purpose, in many runs: nobody is warned."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def restarts_are_not_reported() -> Iterator[None]:
    log = logging.getLogger("streamactors.stages.restart")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)
