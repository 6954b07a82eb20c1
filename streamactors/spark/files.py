"""Files where Spark has them: local, HDFS or an object store, through the Hadoop classes of the session's JVM."""

from __future__ import annotations

from typing import Any

from streamactors.spark.errors import SparkError


class Files:
    """Paths below one root. Raises SparkError naming the path when something cannot be done."""

    def __init__(self, spark: Any, root: str) -> None:
        jvm = spark._jvm
        self._jvm = jvm
        self._path = jvm.org.apache.hadoop.fs.Path(root)
        self._fs = self._path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        self.root = root

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

    def read(self, *names: str) -> str:
        """Return the text of a file."""
        stream = self._fs.open(self.at(*names))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, text: str, *names: str) -> None:
        """Write a file at once: its name stands for the old text or the new one, never for a part."""
        *folders, name = names
        fresh = (*folders, f".{name}.new")
        stream = self._fs.create(self.at(*fresh), True)
        try:
            stream.write(bytearray(text.encode()))
            stream.hsync()
        finally:
            stream.close()
        if self.exists(*names):
            self._fs.delete(self.at(*names), False)
        self.rename(fresh, names)

    def delete(self, *names: str) -> None:
        """Delete a file or a folder with all in it, if it is there."""
        self._fs.delete(self.at(*names), True)

    def make(self, *names: str) -> None:
        """Make a folder and those above it."""
        self._fs.mkdirs(self.at(*names))

    def rename(self, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Give a file or folder another name, which must be free."""
        if not self._fs.rename(self.at(*old), self.at(*new)):
            raise SparkError(f"{self.at(*old).toString()} could not be renamed to {self.at(*new).toString()}")
