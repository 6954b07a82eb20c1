"""Files in Spark's file systems: local, HDFS or an object store, through the Hadoop classes of the session's JVM."""

from __future__ import annotations

import os
from pathlib import Path as FilePath
from typing import Any

from streamactors.spark.errors import SparkError


class Files:
    """Files below one root. Raises SparkError naming the path of an operation that fails."""

    def __init__(self, spark: Any, root: str) -> None:
        from py4j.protocol import Py4JJavaError  # comes with PySpark, which may be missing

        jvm = spark._jvm
        self._jvm = jvm
        self._path = jvm.org.apache.hadoop.fs.Path(root)
        self.root = root
        try:
            self._fs = self._path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        except Py4JJavaError as error:  # no such file system, its package is missing, or its settings are wrong
            raise SparkError(f"{root}: Spark cannot use its file system: {said_by_java(error)}") from None

    def at(self, *names: str) -> Any:
        """Return the path of names below the root."""
        path = self._path
        for name in names:
            path = self._jvm.org.apache.hadoop.fs.Path(path, name)
        return path

    @property
    def local(self) -> str | None:
        """The root as a local path, None if it is not on this machine's file system."""
        qualified = self._fs.makeQualified(self._path).toUri()
        return str(qualified.getPath()) if qualified.getScheme() == "file" else None

    def exists(self, *names: str) -> bool:
        """Return whether it exists."""
        return bool(self._fs.exists(self.at(*names)))

    def names(self, *names: str) -> list[str]:
        """Return the names in a folder; none when there is no such folder."""
        if not self.exists(*names):
            return []
        return [str(status.getPath().getName()) for status in self._fs.listStatus(self.at(*names))]

    def read(self, name: str) -> str:
        """Return the text of a file that `write` has written."""
        local = self.local
        if local is not None:
            return (FilePath(local) / name).read_text()
        stream = self._fs.open(self.at(name if self.exists(name) else _fresh(name)))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, text: str, name: str) -> None:
        """Write a file atomically: whenever the process dies, the file has the old text or the new one."""
        local = self.local
        if local is not None:
            fresh = FilePath(local) / _fresh(name)
            with open(fresh, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, FilePath(local) / name)
            return
        stream = self._fs.create(self.at(_fresh(name)), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.delete(name)
        self.rename((_fresh(name),), (name,))

    def has(self, name: str) -> bool:
        """Return whether `read` finds it."""
        return self.exists(name) or (self.local is None and self.exists(_fresh(name)))

    def delete(self, *names: str) -> None:
        """Delete a file, or a folder with its content, if it exists."""
        self._fs.delete(self.at(*names), True)

    def make(self, *names: str) -> None:
        """Make a folder and those above it."""
        self._fs.mkdirs(self.at(*names))

    def rename(self, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Give a file or folder another name, which must be free."""
        if not self._fs.rename(self.at(*old), self.at(*new)):
            raise SparkError(f"{self.at(*old).toString()} could not be renamed to {self.at(*new).toString()}")


def said_by_java(error: Any) -> str:
    """Return the first line of a Py4JJavaError's Java exception: the name of its class, and its text."""
    lines = str(error.java_exception.toString()).splitlines() or [""]
    kind, _, text = lines[0].partition(": ")
    return f"{kind.rpartition('.')[2]}: {text}" if text else lines[0]


def absolute(spark: Any, given: str) -> str:
    """Return a path that means the same in the session's JVM, which may have been started elsewhere: a relative one of the local file
    system begins where this process is. Others (hdfs:, s3a:, a relative one where the default file system is not local) are as given."""
    scheme, colon, rest = given.partition(":")
    if colon and "/" not in scheme:
        return f"file:{os.path.abspath(rest)}" if scheme == "file" and not rest.startswith("/") else given
    if given.startswith("/"):
        return given
    default = spark._jsparkSession.sessionState().newHadoopConf().get("fs.defaultFS", "file:///")
    return os.path.abspath(given) if str(default).startswith("file:") else given


def _fresh(name: str) -> str:
    return f".{name}.new"
