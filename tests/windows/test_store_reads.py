"""Reading the stores of a stage from outside, while the stage restores some of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from streamactors.errors import StoreNotReady
from streamactors.windows.stage.store_reads import StageReads
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.serdes import Serdes


class Task:
    def entries(self, store, request):
        return [StoreEntry("a", 1)]


class Stage:
    """A stage with one task whose state is there, and `restoring` others."""

    def __init__(self, restoring):
        self.state = SimpleNamespace(restores=SimpleNamespace(reading=set(range(restoring))))
        self.tasks = SimpleNamespace(tasks={0: Task()})

    def step(self, event):
        self.reads.look_up()
        self.reads.answer()

    def async_callback(self, handler):
        return SimpleNamespace(invoke=handler)


def reads_of(stage):
    stage.reads = StageReads(stage, frozenset({"counts"}), Serdes())
    return stage.reads


@pytest.mark.parametrize("dirty", [False, True])
@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (StoreRequest("get", "a"), ["a"]),
        (StoreRequest("get", "b"), []),
        (StoreRequest("range"), ["a"]),
        (StoreRequest("prefix", "x"), []),
    ],
)
def test_what_a_state_that_is_being_restored_may_have_is_not_said_to_be_missing(request_, found, dirty):
    assert [each.key for each in reads_of(Stage(0)).read("counts", request_, dirty=dirty).result(30)] == found
    answer = reads_of(Stage(2)).read("counts", request_, dirty=dirty)
    if request_.kind == "get" and found:
        assert [each.key for each in answer.result(30)] == found
    else:
        with pytest.raises(StoreNotReady, match="store counts: the state of 2 partitions is still being restored here"):
            answer.result(30)
