"""What a member does with metadata that it has applied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.errors import BrokerError, StorageError, StorageShortage
from streamactors.broker.membership.member import Member


def test_a_snapshot_that_cannot_be_written_is_told_and_the_metadata_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    done: list[Any] = []

    def snapshot(image: Any, max_bytes: int) -> None:
        done.append((image, max_bytes))
        raise BrokerError("no space for a snapshot")

    config = SimpleNamespace(metadata_log_max_record_bytes_between_snapshots=77)
    member: Any = SimpleNamespace(
        _publishing=True,
        _image="old",
        _copy=SimpleNamespace(snapshot=snapshot),
        _node=SimpleNamespace(config=config),
        _publish=lambda: done.append("the next"),
    )
    Member._published(member, SimpleNamespace(image="new"))  # type: ignore[arg-type]
    assert done == [("new", 77), "the next"]
    assert (member._publishing, member._image) == (False, "new")
    assert caplog.messages == ["no space for a snapshot; the metadata log keeps growing"]


class Reading:
    """A member whose copy of the metadata cannot be read, with what it does about that."""

    def __init__(self, error: BrokerError) -> None:
        self.timers: list[SimpleNamespace] = []
        self.done: list[str] = []

        def deltas(high_watermark: int) -> Any:
            raise error

        self.member: Any = SimpleNamespace(
            _first_end=None,
            _copy=SimpleNamespace(deltas=deltas),
            _deltas=[],
            _reading_again=None,
            _dispatcher=SimpleNamespace(call_later=self.call_later),
            _observer=SimpleNamespace(stop=lambda: self.done.append("stopped")),
            halted=lambda error: self.done.append(f"halted: {error}"),
            committed=lambda high_watermark: Member.committed(self.member, high_watermark),
        )

    def call_later(self, _: float, then: Any) -> SimpleNamespace:
        timer = SimpleNamespace(fire=then)
        timer.cancel = lambda: self.timers.remove(timer)
        self.timers.append(timer)
        return timer


def test_metadata_that_cannot_be_read_for_want_of_a_descriptor_is_read_again_by_one_timer() -> None:
    # Each commit meanwhile began retries of its own, which never ended: hundreds of attempts a second after some minutes.
    reading = Reading(StorageShortage("no descriptor"))
    for high_watermark in (5, 6, 7):
        reading.member.committed(high_watermark)
    (timer,) = reading.timers
    assert timer.fire.args == (7,)
    assert not reading.done


def test_a_member_whose_disk_cannot_be_read_ends() -> None:
    # The error went to the log of the dispatcher, the member asked for no more metadata, and served what it had.
    reading = Reading(StorageError("Input/output error"))
    reading.member.committed(5)
    assert reading.done == ["stopped", "halted: Input/output error"]
    assert not reading.timers
