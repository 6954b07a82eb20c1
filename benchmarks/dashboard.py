"""What the live page costs a running stream: no page, a page that no browser has open, one open page, and a hundred.

By CPU seconds of the process, which has the stream, the sampler and the page's server; the browsers are another process. The cases alternate, so
that both halves of a pair run on an equally busy machine. Where the pairs vary by more than the page costs, read the rows of the page's own threads: the
kernel counts the CPU time of the sampler and of the server."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._rows import ELEMENTS_OF_STREAM, Row, cpu, plain_stream, share_row
from streamactors import ActorSystem
from streamactors.dashboard.serving import Dashboard

REPEAT = 12
PAGES = (None, 0, 1, 100)
"""Open pages of each case; None: no page is served."""

_BROWSERS = """
import http.client, selectors, sys
port, token, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
waiting, open_ones = selectors.DefaultSelector(), []
for _ in range(count):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/api/events", headers={"Authorization": f"Bearer {token}"})
    socket = connection.sock
    open_ones.append(connection)
    waiting.register(socket, selectors.EVENT_READ)
print("open", flush=True)
while waiting.get_map():
    for key, _ in waiting.select():
        if not key.fileobj.recv(1 << 16):
            waiting.unregister(key.fileobj)
"""


@contextmanager
def browsers(page: Dashboard, count: int) -> Iterator[None]:
    """Open so many pages in another process, which reads what comes."""
    arguments = [sys.executable, "-c", _BROWSERS, str(page.port), page.token, str(count)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield
        finally:
            process.kill()


def of_page() -> float:
    """Return the CPU seconds of the page's threads so far."""
    ids = [each.native_id for each in threading.enumerate() if each.name.startswith("dashboard")]
    return sum(int(Path(f"/proc/self/task/{each}/schedstat").read_text().split()[0]) for each in ids) / 1e9


def spent(pages: int | None) -> tuple[float, float]:
    """Return the CPU seconds of the stream with so many open pages, and those of the page's threads."""
    with ActorSystem("stream") as system:
        if pages is None:
            return cpu(lambda: plain_stream(system)), 0.0
        with system.serve_dashboard() as page:
            if not pages:
                before = of_page()
                return cpu(lambda: plain_stream(system)), of_page() - before
            with browsers(page, pages):
                before = of_page()
                return cpu(lambda: plain_stream(system)), of_page() - before


def run() -> list[Row]:
    """Return two rows for each number of pages."""
    found: dict[Any, list[tuple[float, float]]] = {pages: [] for pages in PAGES}
    for _ in range(REPEAT):
        for pages, seconds in found.items():
            seconds.append(spent(pages))
    alone = found[None]
    names = {0: "a page that no browser has open", 1: "one open page", 100: "a hundred open pages"}
    targets = {0: "nothing measurable", 1: "< 2 %", 100: "does not slow the stream"}
    peer = f"without a page {ELEMENTS_OF_STREAM / statistics.median(all_of for all_of, _ in alone) / 1e6:.1f} M elements/CPU-s"
    rows = []
    for pages, name in names.items():
        pairs = [mine / theirs - 1 for (mine, _), (theirs, _) in zip(found[pages], alone, strict=True)]
        threads = [own / (mine - own) for mine, own in found[pages]]
        rows.append(share_row(name, pairs, "more CPU", peer, targets[pages]))
        rows.append(share_row(f"{name}: its threads", threads, "of the stream's CPU", peer, targets[pages]))
    return rows
