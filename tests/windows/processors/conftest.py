"""Shared pieces of the tests of processors."""

from __future__ import annotations

import pytest

from streamactors.windows.state.disk.rocks import Memory


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(8 << 20)
