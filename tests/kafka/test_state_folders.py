"""The state folder of an application is opened once for all stages of a run, and closed when the last of them has left it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamactors.kafka.state.changelogs import changelog_provider
from streamactors.kafka.state.changelogs.changelog_provider import StateFolders
from streamactors.windows import State


class FakeFolder:
    def __init__(self, state: State, application: str) -> None:
        self.application = application
        self.open = True

    def close(self) -> None:
        assert self.open
        self.open = False


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_folder_closes_with_its_last_stage_and_opens_anew(stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog_provider, "StateFolder", FakeFolder)
    folders, state = StateFolders(), State(path=Path("folder"))
    other: Any = folders.enter(state, "other")
    entered: list[Any] = [folders.enter(state, "app") for _ in range(stages)]
    assert {each.application for each in entered} == {"app"}
    assert all(each is entered[0] for each in entered)
    for folder in entered:
        assert folder.open
        folders.leave(folder)
    assert not entered[0].open
    assert other.open
    again: Any = folders.enter(state, "app")
    assert again is not entered[0]
    assert again.open


def test_state_in_memory_has_no_folder() -> None:
    assert StateFolders().enter(State(), "app") is None
