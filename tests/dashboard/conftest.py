"""A headless browser, and a server whose states a test chooses."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.dashboard.page_server import PageServer
from tests.dashboard.page_states import slow


def chromium() -> Any:
    """Return a headless browser. Skips the test without one."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium, which the extra dev brings")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (binary and driver):
        pytest.skip("needs chromium and chromium-driver, as Debian packages them")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for each in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1400,1000", "disable-gpu"):
        options.add_argument(f"--{each}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    made.set_script_timeout(300)  # axe reads a page of a thousand rows; beside other work its 30 s were too few
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    made = chromium()
    yield made
    made.quit()


@pytest.fixture
def served() -> Iterator[PageServer]:
    server = PageServer(slow)
    yield server
    server.close()
