"""Streams between processes: demand, ends, failures and deaths of both ends; strangers, and what is no frame."""

from __future__ import annotations

import errno
import os
import pickle
import socket
import ssl
import struct
import threading
import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgpack
import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import (
    ActorSystem,
    ConnectionFailed,
    Keep,
    Sink,
    SinkRef,
    Source,
    SourceRef,
    StreamRefError,
    StreamRefs,
    StreamTimeout,
    VirtualClock,
)
from streamactors.stages.stream_refs.wire import HELLO, REFUSED, WELCOME, checked, frame, frames_of
from tests.actors.eventually import eventually
from tests.dsl.stream_ref_ends import received, sent
from tests.refused_accepts import SAID, loop_of, out_of_files, refused_accepts

VALUES = [
    None,
    True,
    1,
    2**70,
    1.5,
    "é",
    b"\0",
    [1, [2]],
    (1, (2,)),
    {"a": {1: None}},
    datetime(2026, 1, 1, tzinfo=UTC),
    Decimal("1.10"),
]


def test_a_source_is_read_and_a_sink_is_fed_through_their_texts():
    ref = SourceRef.parse(str(sent(Source.from_iterable(VALUES))))
    assert ref.source().run_with(Sink.to_list()).result(10) == VALUES
    sink_ref, got = received()
    Source.from_iterable(VALUES).run_with(SinkRef.parse(str(sink_ref)).sink()).result(10)
    assert got.result(10) == VALUES


@pytest.mark.parametrize("window", [1, 7, 1_024])
def test_order_and_number_hold_for_every_window(window):
    n = min(5_000, 100 * window)
    ref = sent(Source.range(0, n))
    assert ref.source(window=window).run_with(Sink.to_list()).result(20) == list(range(n))
    sink_ref, got = received(window=window)
    Source.range(0, n).run_with(sink_ref.sink()).result(20)
    assert got.result(10) == list(range(n))


def test_the_sender_is_ahead_of_the_reader_by_no_more_than_the_window():
    pulled = [0]

    def count(x: int) -> int:
        pulled[0] += 1
        return x

    ref = sent(Source.range(0, 100_000).map(count).max_chunk(1))
    queue = ref.source(window=50).run_with(Sink.to_queue(1))
    for n in range(200):
        assert queue.pull().result(10) == n
        assert pulled[0] <= n + 60
    queue.cancel()


def test_an_element_longer_than_a_frame_is_refused_and_shorter_ones_are_parted():
    big = [bytes(1 << 20)] * 9
    assert sent(Source.from_iterable(big)).source().run_with(Sink.to_list()).result(20) == big
    sink_ref, got = received()
    with pytest.raises(StreamRefError, match="an element has 4194310 bytes, a frame of a stream ref holds 4194304"):
        Source.single(bytes(4 << 20)).run_with(sink_ref.sink()).result(10)
    with pytest.raises(StreamRefError, match=r"the other end of stream ref .* failed: StreamRefError: an element has"):
        got.result(10)


def test_a_type_that_the_codec_refuses_is_named_at_both_ends():
    sink_ref, got = received()
    with pytest.raises(TypeError, match=r"a builtins\.object cannot be encoded") as raised:
        Source.single(object()).run_with(sink_ref.sink()).result(10)
    assert any("in stage sink_ref.sink" in note for note in raised.value.__notes__)
    with pytest.raises(StreamRefError, match=r"CodecError: a builtins\.object cannot be encoded"):
        got.result(10)


def test_the_end_comes_behind_every_element_and_empty_streams_end():
    assert sent(Source.empty()).source().run_with(Sink.to_list()).result(10) == []
    sink_ref, got = received()
    Source.empty().run_with(sink_ref.sink()).result(10)
    assert got.result(10) == []


@pytest.mark.expects_log("a stream has failed and nobody has read its result")
def test_a_failure_is_heard_at_the_other_end():
    ref = sent(Source.from_iterable([1, 0]).map(lambda x: 1 // x))
    with pytest.raises(StreamRefError, match="failed: ZeroDivisionError: integer division or modulo by zero"):
        ref.source().run_with(Sink.to_list()).result(10)
    ref, got = StreamRefs.sink_ref().map(lambda x: 1 // x).to_mat(Sink.to_list(), Keep.both).run()
    with pytest.raises(StreamRefError, match=r"failed: .*ZeroDivisionError"):
        Source.from_iterable([1, 0]).concat(Source.never()).run_with(ref.result(10).sink()).result(10)
    with pytest.raises(ZeroDivisionError):
        got.result(10)


def test_cancel_at_one_end_ends_the_other():
    ended = threading.Event()
    source = Source.repeat(1).watch_termination(lambda _, end: end.add_done_callback(lambda _: ended.set()))
    ref = source.run_with(StreamRefs.source_ref()).result(10)
    assert ref.source().run_with(Sink.head()).result(10) == 1
    assert ended.wait(10)
    ref, first = StreamRefs.sink_ref().to_mat(Sink.head(), Keep.both).run()
    Source.repeat(2).run_with(ref.result(10).sink()).result(10)  # the sink's future ends well
    assert first.result(10) == 2


def test_a_sender_that_is_stopped_is_no_end_of_the_stream():
    sink_ref, got = received()
    feeding = Source.never().run_with(sink_ref.sink())
    time.sleep(0.05)  # in either case, connected or not, the other end must hear of it
    feeding.cancel()
    with pytest.raises((StreamRefError, StreamTimeout)):
        got.result(40)


def test_a_mark_is_done_when_the_other_end_has_taken_everything():
    done: list[int] = []
    source = Source.range(0, 3_000).with_replay(on_done=done.append)
    ref = sent(source)
    queue = ref.source(window=10).run_with(Sink.to_queue(1))
    for _ in range(2_990):
        queue.pull().result(10)
    assert done == []
    while queue.pull(None).result(10) is not None:
        pass
    eventually(lambda: done and done[-1] == 3_000)


def test_a_ref_that_was_not_used_in_time_fails_its_stream():
    clock = VirtualClock()
    with ActorSystem("refs", clock=clock) as system:
        ref, got = StreamRefs.sink_ref(subscription_timeout="10s").to_mat(Sink.to_list(), Keep.both).run(system)
        ref.result(10)
        clock.settle()
        clock.advance("9s")
        assert not got.done()
        clock.advance("2s")
        with pytest.raises(StreamTimeout, match=r"no other end connected within 10 s \(subscription_timeout\)"):
            got.result(10)


def test_a_ref_can_be_used_once():
    ref = sent(Source.range(0, 10).concat(Source.never()))
    first = ref.source().run_with(Sink.to_queue(1))
    assert first.pull().result(10) == 0
    with pytest.raises(ConnectionFailed, match="another end has used it"):
        ref.source().run_with(Sink.to_list()).result(10)
    assert first.pull().result(10) == 1
    first.cancel()


def test_a_text_that_is_no_ref_is_refused_and_a_repr_shows_no_token():
    ref = sent(Source.empty())
    assert ref.token.hex() not in repr(ref)
    assert SourceRef.parse(str(ref)) == ref
    assert SourceRef.parse(str(SourceRef("::1", 5, ref.token))) == SourceRef("::1", 5, ref.token)
    for text in (
        "",
        "x",
        None,
        str(ref)[:30],
        str(ref).replace("source", "sink"),
        "streamactors-source://short@localhost:1",
    ):
        with pytest.raises(StreamRefError, match="is not a SourceRef; expected streamactors-source://token@host:port"):
            SourceRef.parse(text)  # type: ignore[arg-type]
    with pytest.raises(StreamRefError) as raised:
        SinkRef.parse(str(ref))
    assert str(ref).split("://")[1][:20] not in str(raised.value)
    assert ref.source().run_with(Sink.to_list()).result(10) == []


def test_a_wrong_token_is_refused_and_the_right_one_still_gets_in():
    ref = sent(Source.range(0, 3))
    with pytest.raises(StreamRefError, match="refused the connection: the token is wrong"):
        SourceRef(ref.host, ref.port, bytes(32)).source().run_with(Sink.to_list()).result(10)
    with pytest.raises(StreamRefError, match="refused the connection: both ends are a source"):
        Source.single(1).run_with(SinkRef(ref.host, ref.port, ref.token).sink()).result(10)
    assert ref.source().run_with(Sink.to_list()).result(10) == [0, 1, 2]


def test_strangers_fill_no_memory_and_keep_no_one_out():
    ref = sent(Source.range(0, 3))
    strangers = [socket.create_connection((ref.host, ref.port)) for _ in range(10)]
    for i, stranger in enumerate(strangers):
        stranger.sendall(
            [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, struct.pack(">I", 2**31), b"", frame(WELCOME)][i % 5]
        )
    assert ref.source().run_with(Sink.to_list()).result(10) == [0, 1, 2]
    for stranger in strangers:
        stranger.close()


class Exploding:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/exploded",)


@settings(max_examples=200, deadline=None)
@given(
    body=st.one_of(
        st.binary(max_size=40),
        st.lists(
            st.one_of(st.none(), st.integers(-5, 300), st.binary(max_size=3), st.text(max_size=3)), max_size=4
        ).map(msgpack.packb),
    )
)
def test_what_is_no_frame_is_an_error_and_never_anything_else(body):
    try:
        fields = checked(body)
    except StreamRefError:
        return
    assert 0 <= fields[0] <= 9


def test_nothing_is_unpickled():
    with pytest.raises(StreamRefError, match="not a frame"):
        checked(pickle.dumps(Exploding()))


def test_a_peer_that_sends_more_than_was_asked_for_is_cut_off():
    sink_ref, got = received(window=5)
    with socket.create_connection((sink_ref.host, sink_ref.port)) as peer:
        peer.sendall(frame(HELLO, 1, "source", sink_ref.token))
        peer.sendall(b"".join(frames_of(list(range(50)))))
        with pytest.raises(StreamRefError, match="sent more elements than were asked for"):
            got.result(10)
    assert REFUSED


def test_a_frame_that_says_it_is_too_long_ends_the_stream():
    sink_ref, got = received()
    with socket.create_connection((sink_ref.host, sink_ref.port)) as peer:
        peer.sendall(frame(HELLO, 1, "source", sink_ref.token) + struct.pack(">I", 2**31))
        with pytest.raises(StreamRefError, match="a frame of 2147483648 bytes came, 4194304 are allowed"):
            got.result(10)


def test_an_end_that_falls_silent_is_taken_for_dead():
    """The connection stays open and nothing comes: a host that has lost its power sends no FIN."""
    clock = VirtualClock()
    with ActorSystem("refs", clock=clock) as system:
        ref, got = StreamRefs.sink_ref().to_mat(Sink.to_list(), Keep.both).run(system)
        at = ref.result(10)
        with socket.create_connection((at.host, at.port)) as peer:
            peer.sendall(frame(HELLO, 1, "source", at.token))
            peer.recv(5)  # WELCOME: it is in
            deadline = time.monotonic() + 60
            while not got.done() and time.monotonic() < deadline:
                clock.advance("5s")
            with pytest.raises(StreamRefError, match="the other end is gone: nothing has come from it for 20 s"):
                got.result(10)


def test_a_stream_goes_over_tls():
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    ref = sent(Source.range(0, 2_000), tls=server)
    assert ref.source(tls=client).run_with(Sink.count()).result(10) == 2_000


def test_an_end_that_is_out_of_files_says_so_and_accepts_later(monkeypatch, caplog):
    # Accepting ended without a word, and the stream failed after subscription_timeout because nobody had come.
    with ActorSystem("refused") as system:
        left = refused_accepts(
            monkeypatch, loop_of(system), out_of_files(), OSError(errno.ECONNABORTED, ""), OSError(errno.EPROTO, "")
        )
        sink_ref, got = received(system)
        Source.from_iterable(VALUES).run_with(sink_ref.sink()).result(10)
        assert got.result(10) == VALUES
    assert not left
    assert SAID in caplog.text


def test_an_end_that_cannot_accept_fails_with_the_reason(monkeypatch):
    with ActorSystem("refused") as system:
        refused_accepts(monkeypatch, loop_of(system), OSError(errno.EPERM, os.strerror(errno.EPERM)))
        _, got = received(system)
        with pytest.raises(ConnectionFailed, match=r"cannot accept: .* Operation not permitted"):
            got.result(10)
