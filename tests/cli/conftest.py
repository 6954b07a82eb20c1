"""On a busy machine the first answer of a broker may take longer than a person at a terminal would like to wait."""

from __future__ import annotations

import pytest

from streamactors.kafka import client


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_MS", 30_000)
