"""docs/notebooks.md as a notebook: every cell runs in a real kernel, and shows what the page says."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors import ActorSystem, BuildError, Keep, KillSwitches, Sink, Source
from streamactors.notebook import watch
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "notebooks.md"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_cell_of_the_page_shows_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "nbclient and ipykernel are not here; pip install nbclient ipykernel"
    nbclient, nbformat = (pytest.importorskip(name, reason=reason) for name in ("nbclient", "nbformat"))
    pytest.importorskip("ipykernel", reason=reason)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]))
    cells = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    cells.insert(3, "import time; time.sleep(2.5)")  # the figure is redrawn meanwhile
    cells.insert(6, "time.sleep(1); ages")  # the rows have come by now
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3")

    def shown(number: int) -> list[Any]:
        return [each.data for each in notebook.cells[number].outputs if "data" in each]

    def passed(number: int) -> int:
        """Return how many elements have passed the first arrow of a figure."""
        return int(re.findall(r">([\d,]+)<", shown(number)[0]["image/svg+xml"])[0].replace(",", ""))

    with client.setup_kernel():
        for number, cell in enumerate(notebook.cells[:4]):
            client.execute_cell(cell, number)
        assert "<svg" in shown(0)[0]["image/svg+xml"]
        assert "waits for" not in shown(0)[0]["image/svg+xml"]
        assert "waits for elements" in shown(1)[0]["image/svg+xml"]
        assert "redrawn until it ends" in shown(2)[-1]["text/plain"]
        assert passed(2) >= passed(1) + 100  # the cell shows the figure of two seconds later
        for number, cell in enumerate(notebook.cells[4:], 4):
            client.execute_cell(cell, number)
        assert "ages" in shown(5)[0]["text/plain"]
        assert "<td" in shown(6)[0]["text/html"]
        assert "36 years" in shown(6)[0]["text/html"]


@pytest.fixture
def ipython(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What IPython's `display` was given, and its handle."""
    seen = SimpleNamespace(shown=[], updates=[])

    def display(value: Any, *, display_id: bool) -> Any:
        assert display_id
        seen.shown.append(value)
        return SimpleNamespace(update=lambda newer: seen.updates.append(newer._repr_mimebundle_()))

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=SimpleNamespace(display=display)))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    return seen


def until(seen: Any) -> None:
    give_up = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_a_figure_is_redrawn_until_its_graph_has_ended_or_it_is_stopped(ipython: SimpleNamespace) -> None:
    with ActorSystem() as system:
        graph = Source.repeat(1).via_mat(KillSwitches.single(), Keep.right).to(Sink.never())
        switch = graph.run(system)
        figure, stopped = watch(graph, 0.1), watch(graph, 0.1)
        assert ipython.shown == [graph, graph]
        until(lambda: len(ipython.updates) >= 4)
        stopped.stop()
        until(lambda: not stopped.running)
        assert figure.running
        switch.shutdown()
        until(lambda: not figure.running)
        assert "a running graph of" in ipython.updates[0]["text/plain"]
        assert ipython.updates[-1]["text/plain"] == repr(graph)  # no figure of a run stays that looks as if it went on
    assert not any(thread.name == "notebook figure" for thread in threading.enumerate())
    assert "not redrawn any more" in repr(figure)


def test_watch_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BuildError, match="watch: expected the graph that was run, got int 3"):
        watch(3)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(BuildError, match="there is no IPython here; in a terminal use: streamactors top"):
        watch(Source.range(3).to(Sink.ignore()))
