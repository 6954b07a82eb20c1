"""Streams between processes and hosts: one TCP connection a stream, with demand, a token, and each end noticing the death of the other.

    ends.py      the end with the elements, and the end that asks for them
    link.py      the connection: who listens, who connects, heartbeats          wire.py   the frames

Either end may listen: a SourceRef is made by the sending end, a SinkRef by the receiving one (`dsl/dynamic/stream_refs.py`)."""
