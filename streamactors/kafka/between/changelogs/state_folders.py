"""The state folders of a run: one per application, shared by the stages that keep their state in it.

Owner: the run. Called when stages start and stop, on any thread."""

from __future__ import annotations

import threading

from streamactors.engine.island.run import Run
from streamactors.windows.state.disk.definition import State
from streamactors.windows.state.disk.folder import StateFolder


class StateFolders:
    """Opens each folder once and closes it when the last stage has left it."""

    def __init__(self) -> None:
        self._open: dict[tuple[State, str], tuple[StateFolder, int]] = {}
        self._lock = threading.Lock()

    def enter(self, state: State, application: str) -> StateFolder | None:
        """Return the folder of an application; None if its state is in memory. Raises StateError."""
        if state.path is None:
            return None
        with self._lock:
            folder, users = self._open.get((state, application), (None, 0))
            if folder is None:
                folder = StateFolder(state, application)
            self._open[state, application] = folder, users + 1
            return folder

    def leave(self, folder: StateFolder) -> None:
        """A stage has stopped."""
        with self._lock:
            for key, (each, users) in list(self._open.items()):
                if each is folder and users > 1:
                    self._open[key] = folder, users - 1
                elif each is folder:
                    del self._open[key]
                    folder.close()


def state_folders_of(run: Run) -> StateFolders:
    """Return the state folders of a run."""
    return run.shared(StateFolders, StateFolders)
