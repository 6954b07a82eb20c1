"""The pictures of docs/dashboard.md, from a pipeline that runs: `python -m docs.draw_dashboard`. Needs Chromium and selenium; `make docs` does not draw them."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.dashboard.conftest import chromium
from tests.dashboard.slowdowns import Pipeline, pipeline

IMAGES: Final = Path(__file__).parent / "images"
SLOW_S: Final = 20.0
"""Seconds until a slow part has had its effect."""


def draw(browser: Any, running: Pipeline, what: str, screen: str, theme: str, height: int) -> None:
    """Make a part slow, and save a screen."""
    running.slow(what)
    size = {"width": 1300, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wanted = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
    browser.get("about:blank")
    browser.get(running.page.url)
    time.sleep(SLOW_S)
    browser.execute_script("document.getElementById(arguments[0]).click()", f"tab-{screen}")
    time.sleep(2)
    browser.save_screenshot(str(IMAGES / f"dashboard-{screen}.png"))
    running.slow(None)


def main() -> None:
    """Draw all pictures."""
    browser = chromium()
    with tempfile.TemporaryDirectory() as folder, pipeline(Path(folder), None) as running:
        time.sleep(5)
        draw(browser, running, "sink", "graph", "light", 760)
        draw(browser, running, "partition", "partitions", "dark", 700)
    browser.quit()


if __name__ == "__main__":
    main()
