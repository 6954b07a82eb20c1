"""These tests crash instances, stop brokers and lose requests, in many runs: the product's warnings of it are nobody's concern."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def warnings_are_not_reported() -> Iterator[None]:
    log = logging.getLogger("streamactors")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)
