"""Folders of small files where all executors reach them: a local or shared file system, or an object store through fsspec."""

from __future__ import annotations

import os
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from streamactors.spark.errors import SparkSetupError

ABANDONED_S: Final = 3_600
"""A file without its final name that is older than this belongs to a process that was killed."""

PUT_IS_WHOLE: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "cos", "memory"})
"""Stores, by the names of fsspec, that show an object only when all of it is written. Others show what a killed writer has written so far."""


class Folder(Protocol):
    """Files below one root, by name with slashes. A file is there whole or not at all."""

    def put(self, name: str, data: bytes) -> None:
        """Write a file; a file of that name is replaced."""

    def get(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""

    def names(self, name: str) -> list[str]:
        """Return the names of the files in a folder; none if there is no such folder."""

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""

    def tidy(self, name: str) -> None:
        """Delete the unfinished files that killed writers left in a folder."""


def folder_at(path: str) -> Folder:
    """Return the folder at a path or URL (file:, s3:, gs:, abfs:, hdfs:, memory: …). Raises SparkSetupError naming what is missing."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return LocalFolder(Path(path))
    if scheme == "file":
        return LocalFolder(Path("/" + rest.lstrip("/")))
    try:
        import fsspec

        return RemoteFolder(*fsspec.core.url_to_fs({"s3a": "s3", "s3n": "s3"}.get(scheme, scheme) + ":" + rest))
    except (ImportError, ValueError) as error:
        raise SparkSetupError(
            f"{path}: files there need fsspec and its package for {scheme}: ({error}); pip install 'streamactors[files]' and that package "
            "on every host, or use a folder that all hosts share"
        ) from None


class LocalFolder:
    """A folder of a file system that is mounted here, and on every other host that runs tasks."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __str__(self) -> str:
        return str(self._root)

    def put(self, name: str, data: bytes) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex}")
        try:
            with open(beside, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        _sync(path.parent)

    def get(self, name: str) -> bytes | None:
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, name: str) -> list[str]:
        try:
            return os.listdir(self._root / name)
        except FileNotFoundError:
            return []

    def delete(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def tidy(self, name: str) -> None:
        for path in (self._root / name).glob(".*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - ABANDONED_S:
                    path.unlink()


def _sync(folder: Path) -> None:
    """Make a rename in a folder durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class RemoteFolder:
    """A folder of an object store, or of anything else that fsspec knows, such as HDFS. A put of an object is atomic; elsewhere a file is
    written beside its name and renamed."""

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root.rstrip("/")
        names = files.protocol
        self._put_is_whole = not PUT_IS_WHOLE.isdisjoint((names,) if isinstance(names, str) else names)

    def __str__(self) -> str:
        return f"{self._files.protocol}:{self._root}"

    def put(self, name: str, data: bytes) -> None:
        path = f"{self._root}/{name}"
        folder, _, last = path.rpartition("/")
        self._files.makedirs(folder, exist_ok=True)
        if self._put_is_whole:
            self._files.pipe_file(path, data)
            return
        beside = f"{folder}/.{last}.{os.getpid()}-{uuid.uuid4().hex}"
        try:
            self._files.pipe_file(beside, data)
            try:
                self._files.mv(beside, path)
            except OSError:  # HDFS does not rename onto a file
                if not self._files.exists(path):
                    raise
                self._files.rm_file(path)
                self._files.mv(beside, path)
        except BaseException:
            with suppress(OSError):
                self._files.rm_file(beside)
            raise

    def get(self, name: str) -> bytes | None:
        try:
            return bytes(self._files.cat_file(f"{self._root}/{name}"))
        except FileNotFoundError:
            return None

    def names(self, name: str) -> list[str]:
        self._files.invalidate_cache(f"{self._root}/{name}")
        try:
            return [path.rpartition("/")[2] for path in self._files.ls(f"{self._root}/{name}", detail=False)]
        except FileNotFoundError:
            return []

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{name}")

    def tidy(self, name: str) -> None:
        if self._put_is_whole:
            return  # a put that was not finished leaves no object
        for each in self.names(name):
            path = f"{self._root}/{name}/{each}"
            with suppress(FileNotFoundError):
                if each.startswith(".") and self._files.modified(path).timestamp() < time.time() - ABANDONED_S:
                    self._files.rm_file(path)
