"""Which pages of a slice are probed before it is sent, beside a disk whose cold pages the test chooses."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.broker.replication import warming
from streamactors.broker.replication.warming import is_cold, read_now, warm

PAGE = 4_096
EVERY = 256 << 10
NOWAIT = 8


class Disk:
    """Stands for `os.preadv` of a file of `size` bytes: a read that must not wait fails on a cold page."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.cold: set[int] = set()
        self.error = errno.EAGAIN
        self.probed: list[tuple[int, int]] = []

    def preadv(self, fd: int, buffers: Sequence[Any], position: int, flags: int = 0) -> int:
        (buffer,) = buffers
        length = max(0, min(len(buffer), self.size - position))
        pages = set(range(position // PAGE, (position + max(length, 1) - 1) // PAGE + 1))
        if flags:
            assert flags == NOWAIT
            self.probed.append((position, length))
            if pages & self.cold:
                raise OSError(self.error, os.strerror(self.error))
        else:
            self.cold -= pages
        buffer[:length] = bytes((position + at) % 251 for at in range(length)) if length <= 8_192 else bytes(length)
        return length


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(4 << 20)
    monkeypatch.setattr(warming, "_NOWAIT", NOWAIT)
    monkeypatch.setattr(warming, "os", SimpleNamespace(preadv=disk.preadv))
    return disk


def piece(position: int, length: int) -> Any:
    return SimpleNamespace(fd=3, position=position, length=length)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 1 << 20), length=st.integers(1, 3 << 20), data=st.data())
def test_the_ends_of_a_slice_are_probed_and_every_stretch_between(
    disk: Disk, position: int, length: int, data: st.DataObject
) -> None:
    disk.probed.clear()
    disk.cold.clear()
    assert not is_cold(piece(position, length))
    end = position + length
    probed = [at for at, size in disk.probed if size == 1]
    assert probed == sorted(set(probed)) or length == 1
    assert (probed[0], probed[-1]) == (position, end - 1)  # and nothing outside of the slice
    assert all(after - before <= EVERY for before, after in pairwise(probed))
    assert len(probed) <= length // EVERY + 2
    disk.cold = {data.draw(st.sampled_from([position // PAGE, (end - 1) // PAGE]))}
    assert is_cold(piece(position, length))
    disk.cold = {(end - 1) // PAGE + 1, position // PAGE - 1}  # the neighbours
    assert not is_cold(piece(position, length))


def test_a_disk_that_cannot_tell_counts_as_warm_and_one_that_fails_as_cold(disk: Disk) -> None:
    disk.cold = {0}
    for code in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
        disk.error = code
        assert not is_cold(piece(0, 10))
        assert read_now(piece(0, 10)) == bytes(range(10))
        disk.cold = {0}
    for code in (errno.EAGAIN, errno.EIO):
        disk.error = code
        assert is_cold(piece(0, 10))
        assert read_now(piece(0, 10)) is None


def test_a_small_slice_is_read_whole_or_not_at_all(disk: Disk) -> None:
    assert read_now(piece(5, 3)) == bytes([5, 6, 7])
    assert read_now(piece(disk.size - 3, 3)) is not None
    assert read_now(piece(disk.size - 2, 3)) is None  # it was truncated
    disk.cold = {1}
    assert read_now(piece(PAGE - 1, 2)) is None
    assert disk.cold == {1}  # nothing waited for the disk


def test_without_the_flag_every_read_is_plain(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "_NOWAIT", None)
    disk.cold = {0}
    assert not is_cold(piece(0, 10))
    assert read_now(piece(0, 3)) == bytes([0, 1, 2])
    assert disk.probed == []


@pytest.mark.parametrize("length", [1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_warming_reads_every_page_of_the_slices_and_no_other(disk: Disk, length: int) -> None:
    pages = set(range(disk.size // PAGE + 1))
    disk.cold = set(pages)
    warm([piece(PAGE, length), piece(0, 1)])
    assert pages - disk.cold == {0, *range(1, (PAGE + length - 1) // PAGE + 1)}


def test_warming_ends_where_a_file_was_truncated(disk: Disk) -> None:
    warm([piece(disk.size - 10, 1 << 20)])
    warm([piece(disk.size + 10, 1)])


def test_the_kernel_has_the_flag_that_the_probes_use(tmp_path: Path) -> None:
    """The real thing once: a file that was just written is in memory, if the file system can tell."""
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    with open(path, "rb") as file:
        assert read_now(SimpleNamespace(fd=file.fileno(), position=10, length=90)) == bytes(90)  # type: ignore[arg-type]
        assert not is_cold(SimpleNamespace(fd=file.fileno(), position=0, length=100))  # type: ignore[arg-type]
