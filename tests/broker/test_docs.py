"""docs/broker-reference.md is what the code says, and a handler's header says what the handler serves."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from docs import broker_page
from streamactors.broker import apis
from streamactors.broker.requests.api import Routes

ROUTES = Routes.of_package(apis)


@pytest.mark.parametrize("key", [key for key, _, _ in ROUTES.ranges])
def test_a_handlers_header_is_its_specification(key: int) -> None:
    api = ROUTES.get(key)
    assert api is not None
    header = importlib.import_module(api.handle.__module__).__doc__ or ""
    parts = broker_page.parts_of(header)
    assert [label for label, told in parts.items() if not told] == []
    low, high = api.versions
    assert parts["Versions"].partition(" ")[0].rstrip(".") in (f"{low}-{high}", f"{low}")


def test_the_page_is_up_to_date() -> None:
    assert Path(broker_page.PAGE).read_text() == broker_page.text().rstrip() + "\n", "run: make docs"
