"""One database of one task: bytes to bytes, ordered by the bytes of the key. The only module that imports rocksdict.

Owner: TaskDisk. The database is written in batches, each of them whole or not at all. Batches go through the write-ahead log without
fsync: they survive the end of the process. A power cut may lose the last batches, in their order, and the changelog has them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from streamactors.actors.native_calls import NATIVE_CALLS
from streamactors.state import require_rocksdict
from streamactors.windows.state.disk.errors import StateDamaged, StateDiskFull, StateError, StateFolderInUse

_BLOOM_BITS: Final = 10
_BLOCK: Final = 4 << 10
_MOST_OPEN_FILES: Final = 256


class Memory:
    """The memory that the databases of one run share: blocks that were read, and batches that are not in a file yet."""

    def __init__(self, cache_bytes: int) -> None:
        require_rocksdict()
        import rocksdict

        self.blocks = rocksdict.Cache(cache_bytes // 2)
        self.buffers = rocksdict.WriteBufferManager(cache_bytes // 4, False)
        self.buffer_bytes = max(1 << 20, min(16 << 20, cache_bytes // 16))


class Rocks:
    """One RocksDB database. `path`: a folder of its own, made if missing. Raises StateFolderInUse, StateDamaged."""

    def __init__(self, path: Path, memory: Memory) -> None:
        import rocksdict

        self.path = path
        self._module: Any = rocksdict
        try:
            path.mkdir(parents=True, exist_ok=True)
            with NATIVE_CALLS.call():
                self._db: Any = rocksdict.Rdict(str(path), self._options(memory))
        except Exception as error:
            raise self._meaning(error) from error

    def _options(self, memory: Memory) -> Any:
        rocksdict = self._module
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        tables = rocksdict.BlockBasedOptions()
        tables.set_block_cache(memory.blocks)
        tables.set_bloom_filter(_BLOOM_BITS, False)
        tables.set_block_size(_BLOCK)
        # In the cache, blocks of data push the filters out, and every search for a missing key reads them again. Outside it they take 2 to 3 bytes
        # for each entry.
        tables.set_cache_index_and_filter_blocks(False)
        options.set_block_based_table_factory(tables)
        options.set_write_buffer_size(memory.buffer_bytes)
        options.set_write_buffer_manager(memory.buffers)
        options.set_compression_type(rocksdict.DBCompressionType.none())
        options.set_max_open_files(_MOST_OPEN_FILES)
        options.set_keep_log_file_num(2)
        options.set_max_total_wal_size(4 * memory.buffer_bytes)
        return options

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, None if there is none. Raises StateDamaged."""
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise self._meaning(error) from error
        return value

    def scan(self, lower: bytes, upper: bytes, *, backwards: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Return the entries with lower <= key < upper, by key. The iterator shows the state at its first step."""
        try:
            # rocksdict encodes the bounds of ReadOptions as if the keys were not raw, so the bounds are checked here
            if backwards:
                for key, value in self._db.items(backwards=True, from_key=upper):
                    if key < lower:
                        return
                    if key < upper:
                        yield key, value
            else:
                for key, value in self._db.items(from_key=lower):
                    if key >= upper:
                        return
                    yield key, value
        except GeneratorExit:
            raise
        except Exception as error:
            raise self._meaning(error) from error

    @property
    def bytes_on_disk(self) -> int:
        """Bytes of the database's files, without the write-ahead log."""
        return int(self._db.property_int_value("rocksdb.total-sst-files-size") or 0)

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, entries: Mapping[bytes, bytes | None]) -> None:
        """Write entries as one batch; None deletes. Raises StateDiskFull, StateDamaged."""
        batch = self._module.WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in entries.items():
            if value is None:
                delete(key)
            else:
                put(key, value)
        try:
            with NATIVE_CALLS.call():
                self._db.write(batch)
        except Exception as error:
            raise self._meaning(error) from error

    def flush(self) -> None:
        """Write everything to files. Raises StateDiskFull, StateDamaged."""
        try:
            with NATIVE_CALLS.call():
                self._db.flush()
        except Exception as error:
            raise self._meaning(error) from error

    def close(self) -> None:
        """Close the files. Idempotent. Raises StateError if what is in memory cannot be written to them."""
        try:
            with NATIVE_CALLS.call():
                self._db.close()
        except Exception as error:
            if type(error).__name__ != "DbClosedError":
                raise self._meaning(error) from error

    def _meaning(self, error: Exception) -> StateError:
        """Return what an error of the library means."""
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        lower = text.lower()
        if isinstance(error, OSError):
            return StateError(f"state in {self.path}: {text}; give a folder that this user may write: State.on_disk(…)")
        if type(error).__name__ == "DbClosedError":
            return StateError(f"state in {self.path} is closed: its task has ended")
        if "no space left" in lower or "disk quota" in lower or "space limit" in lower:
            free = shutil.disk_usage(self.path).free >> 20
            return StateDiskFull(
                f"state in {self.path}: the disk is full ({free} MB free); make room, or give another folder: State.on_disk(…)"
            )
        if "lock" in lower and ("hold" in lower or "unavailable" in lower):
            return StateFolderInUse(
                f"state in {self.path} is used by another run; give each instance a folder of its own: State.on_disk(…)"
            )
        if not self.path.exists():
            return StateError(
                f"state in {self.path}: the folder was removed while its run was using it; the next run restores it from its changelogs"
            )
        return StateDamaged(
            f"state in {self.path} cannot be read: {text}; `streamactors state repair {self.path.parent.parent}` removes the damaged "
            "database, and the next run restores it from its changelog"
        )
