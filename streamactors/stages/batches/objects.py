"""to_objects: each batch as one file, in any store that fsspec knows: s3://, gs://, abfs://, sftp://, file://, memory:// …"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from streamactors.durations import Duration
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.stages.batches.batches import Batches
from streamactors.stages.checks import plain_function
from streamactors.stages.files.replacing import ReplacedFile
from streamactors.stages.files.writing import write_all
from streamactors.stages.restart_settings import RestartSettings


class ToObjects(Batches):
    """The stage of `Sink.to_objects`."""

    name = "to_objects"

    def __init__(
        self,
        url: Callable[[list[Any]], str],
        encode: Callable[[list[Any]], bytes],
        max: int = 10_000,
        within: Duration = "1m",
        retry: RestartSettings | None = None,
        storage: dict[str, Any] | None = None,
    ) -> None:
        try:
            import fsspec
        except ImportError:
            raise BuildError("to_objects needs fsspec: pip install 'streamactors[files]'") from None
        self._fsspec = fsspec
        self.url = plain_function("to_objects: url", url)
        self.encode = plain_function("to_objects: encode", encode)
        self.storage = dict(storage or {})
        super().__init__(self._write, max, within, retry)

    def _write(self, elements: list[Any]) -> None:
        url = self.url(elements)
        data = self.encode(elements)
        if not isinstance(url, str):
            raise TypeError(f"to_objects: url must return a string, got {shortened(url, 60)}")
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"to_objects: encode must return bytes, got {type(data).__name__} {shortened(data, 60)}")
        try:
            if (path := self._local_path(url)) is not None:
                _replace(path, data)
            else:
                with self._fsspec.open(url, "wb", **self.storage) as file:
                    file.write(data)
        except Exception as error:
            error.add_note(f"writing {url}")
            raise

    def _local_path(self, url: str) -> str | None:
        """Return the path of a file of this machine; None for other stores, whose objects appear when they are complete."""
        if "compression" in self.storage or "::" in url:
            return None
        system, path = self._fsspec.core.url_to_fs(url, **self.storage)
        return str(path) if "file" in system.protocol else None


def _replace(path: str, data: Any) -> None:
    """Write a local file beside an old one, and put it in its place."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = ReplacedFile(path)
    try:
        write_all(new.file, data)
        new.complete(sync=False)
    except BaseException:
        new.discard()
        raise
