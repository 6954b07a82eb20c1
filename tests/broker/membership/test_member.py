"""What a member does with metadata that it has applied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.errors import BrokerError
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
        life=SimpleNamespace(applied=lambda image: done.append(f"applied {image}")),
        _copy=SimpleNamespace(snapshot=snapshot),
        _node=SimpleNamespace(config=config),
        _publish=lambda: done.append("the next"),
    )
    Member._published(member, SimpleNamespace(image="new"))  # type: ignore[arg-type]
    assert done == ["applied new", ("new", 77), "the next"]
    assert (member._publishing, member._image) == (False, "new")
    assert caplog.messages == ["no space for a snapshot; the metadata log keeps growing"]
