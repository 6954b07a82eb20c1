"""The state folders of the instances. A folder survives a crash as it stood at that moment; what the dead tasks still write is lost.

Owner: the world. After a crash the next start of the instance gets a copy at another path, because open files, locks and databases of the
dead one keep the old path in this process."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

TORN: float = 0.5
"""How often the file that was written last loses its end, when a crash may tear it."""


class Disks:
    """One folder per instance, below a temporary folder that is made when first needed."""

    def __init__(self, dice: random.Random) -> None:
        self._root: Path | None = None
        self._dice = dice
        self._times: dict[str, int] = {}

    def folder(self, instance: str) -> Path:
        """Return the instance's folder, made if it is missing."""
        path = self._path(instance)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _path(self, instance: str) -> Path:
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="streamactors-world-"))
        return self._root / f"{instance or 'world'}-{self._times.setdefault(instance, 0)}"

    def crash(self, instance: str, *, torn: bool) -> str:
        """Keep what is written now. `torn`: dice decide whether the newest file loses its end. Returns what was torn, "" for nothing."""
        if instance not in self._times:
            return ""
        old = self.folder(instance)
        self._times[instance] += 1
        new = self._path(instance)
        shutil.copytree(old, new)
        return self._tear(new) if torn and self._dice.random() < TORN else ""

    def lose(self, instance: str) -> None:
        """The instance's disk is empty when it starts again."""
        self._times[instance] = self._times.get(instance, 0) + 1

    def remove(self) -> None:
        """The run is over: remove all folders."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)

    def _tear(self, folder: Path) -> str:
        files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
        if not files:
            return ""
        newest = max(files, key=lambda path: (path.stat().st_mtime_ns, str(path)))
        kept = int(self._dice.random() * newest.stat().st_size)
        with newest.open("r+b") as file:
            file.truncate(kept)
        return f"{newest.relative_to(folder)} ends after {kept} bytes"
