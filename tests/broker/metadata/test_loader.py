"""The loader publishes whole batches, and transactions of the metadata log as a whole or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.metadata.delta import apply_records
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.loader import MetadataLoader
from streamactors.broker.metadata.metadata_record import (
    FeatureLevel,
    MetadataRecord,
    NoOp,
    PartitionRecord,
    TopicRecord,
)
from streamactors.broker.metadata.transaction_record import AbortTransaction, BeginTransaction, EndTransaction
from streamactors.broker.protocol.record_schema import CorruptRecord

BEGIN, END, ABORT = BeginTransaction(), EndTransaction(), AbortTransaction()


def feature(number: int) -> FeatureLevel:
    return FeatureLevel(f"f{number}", 1)


def test_nothing_is_published_between_the_begin_and_the_end_of_a_transaction() -> None:
    loader = MetadataLoader(MetadataImage())
    loader.replay([feature(0)], 0)
    first = loader.take()
    assert first is not None
    assert set(first.image.features) == {"f0"}
    loader.replay([BEGIN, feature(1)], 2)
    assert loader.take() is None
    assert loader.in_transaction
    loader.replay([feature(2)], 3)
    assert loader.take() is None
    loader.replay([feature(3), END], 5)
    whole = loader.take()
    assert whole is not None
    assert set(whole.image.features) == {"f0", "f1", "f2", "f3"}
    assert whole.image.offset == 5
    assert loader.take() is None


def test_an_aborted_transaction_leaves_nothing_but_its_offset() -> None:
    loader = MetadataLoader(MetadataImage())
    loader.replay([feature(0)], 0)
    before = loader.take()
    loader.replay([BEGIN, feature(1)], 2)
    loader.replay([feature(2), ABORT], 4)
    after = loader.take()
    assert before is not None
    assert after is not None
    assert after.image.features == before.image.features
    assert after.image.offset == 4


def test_batches_are_published_one_by_one_or_together_with_the_same_image() -> None:
    one, many = MetadataLoader(MetadataImage()), MetadataLoader(MetadataImage())
    for number in range(3):
        one.replay([feature(number)], number)
        assert one.take() is not None
        many.replay([feature(number)], number)
    together = many.take()
    one.replay([], 3)  # a control batch moves the offset only
    last = one.take()
    assert together is not None
    assert last is not None
    assert last.image.features == together.image.features
    assert (together.image.offset, last.image.offset) == (2, 3)


@pytest.mark.parametrize("records", [[END], [ABORT], [BEGIN, BEGIN]])
def test_marks_out_of_order_are_damage(records: Sequence[MetadataRecord]) -> None:
    with pytest.raises(CorruptRecord, match="transaction"):
        MetadataLoader(MetadataImage()).replay(records, 0)


def test_a_mark_cannot_be_applied_to_an_image() -> None:
    with pytest.raises(CorruptRecord, match="BeginTransaction"):
        apply_records(MetadataImage(), [BEGIN], 0)


def test_a_snapshot_replaces_the_image_and_the_delta_says_what_changed() -> None:
    loader = MetadataLoader(MetadataImage())
    old, new = uuid.UUID(int=7), uuid.UUID(int=8)
    loader.replay([TopicRecord("old", old), PartitionRecord(0, old, (1,), (1,), 1), BEGIN, NoOp()], 3)
    before = loader.take()
    assert before is None  # the batch ends within a transaction
    loader.replay([END], 4)
    assert loader.take() is not None
    loader.replay([BEGIN], 5)
    delta = loader.restart([TopicRecord("new", new), PartitionRecord(0, new, (2,), (2,), 2)], 99)
    assert [topic.name for topic in delta.created] == ["new"]
    assert [topic.name for topic in delta.deleted] == ["old"]
    assert delta.image.offset == 99
    assert not loader.in_transaction
    loader.replay([feature(1)], 100)
    later = loader.take()
    assert later is not None
    assert set(later.image.topics) == {"new"}


pieces = st.lists(
    st.one_of(
        st.lists(st.integers(0, 9).map(feature), max_size=3),
        st.tuples(st.lists(st.integers(0, 9).map(feature), max_size=4), st.booleans()),
    ),
    max_size=6,
)


@given(pieces, st.data())
def test_the_image_is_that_of_the_records_outside_aborted_transactions(
    script: list[list[FeatureLevel] | tuple[list[FeatureLevel], bool]], data: st.DataObject
) -> None:
    log: list[MetadataRecord] = []
    expected: list[MetadataRecord] = []
    for piece in script:
        if isinstance(piece, tuple):
            inner, commits = piece
            log += [BEGIN, *inner, END if commits else ABORT]
            expected += inner if commits else []
        else:
            log += piece
            expected += piece
    loader = MetadataLoader(MetadataImage())
    image = MetadataImage()
    at = 0
    while at < len(log):  # cut into batches anywhere, and taken or not after each
        size = data.draw(st.integers(1, 4))
        batch = log[at : at + size]
        at += len(batch)
        loader.replay(batch, at - 1)
        if data.draw(st.booleans()) or at == len(log):
            delta = loader.take()
            image = image if delta is None else delta.image
    assert image.features == apply_records(MetadataImage(), expected, 0).image.features
