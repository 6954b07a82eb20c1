"""Bodies of Produce and Fetch requests, as hypothesis makes them."""

from __future__ import annotations

from hypothesis import strategies as st

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
int16s, int32s = st.integers(-(1 << 15), (1 << 15) - 1), st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
topic_ids = st.uuids().filter(lambda value: value.int != 0)


def record_bytes(max_size: int = 300) -> st.SearchStrategy[bytes]:
    return st.binary(max_size=max_size)


produce_bodies = st.fixed_dictionaries(
    {
        "transactional_id": st.none() | st.text(max_size=5),
        "acks": int16s,
        "timeout_ms": int32s,
        "topic_data": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.text(max_size=8),
                    "topic_id": topic_ids,
                    "partition_data": st.lists(
                        st.fixed_dictionaries({"index": int32s, "records": st.none() | record_bytes()}), max_size=3
                    ),
                }
            ),
            max_size=3,
        ),
    }
)


fetch_bodies = st.fixed_dictionaries(
    {
        "replica_id": st.integers(-2, 5),
        "max_wait_ms": int32s,
        "min_bytes": int32s,
        "max_bytes": int32s,
        "isolation_level": st.integers(0, 1),
        "session_id": int32s,
        "session_epoch": int32s,
        "rack_id": st.text(max_size=4),
        "topics": st.lists(
            st.fixed_dictionaries(
                {
                    "topic": st.text(max_size=8),
                    "topic_id": topic_ids,
                    "partitions": st.lists(
                        st.fixed_dictionaries(
                            {
                                "partition": int32s,
                                "current_leader_epoch": int32s,
                                "fetch_offset": int64s,
                                "last_fetched_epoch": int32s,
                                "log_start_offset": int64s,
                                "partition_max_bytes": int32s,
                                "replica_directory_id": topic_ids | st.none(),
                                "high_watermark": int64s,
                            }
                        ),
                        max_size=3,
                    ),
                }
            ),
            max_size=3,
        ),
        "forgotten_topics_data": st.lists(
            st.fixed_dictionaries(
                {"topic": st.text(max_size=8), "topic_id": topic_ids, "partitions": st.lists(int32s, max_size=3)}
            ),
            max_size=2,
        ),
    }
)
