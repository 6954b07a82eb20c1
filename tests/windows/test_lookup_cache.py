"""The cache of `join_lookup`: how many answers it keeps, for how long, and which one it forgets."""

from __future__ import annotations

import pytest

from streamactors.windows.joins.lookup_cache import LookupCache


def test_an_answer_that_is_not_kept_takes_no_place() -> None:
    cache = LookupCache(1, ttl_ms=None, missing_ttl_ms=0)
    cache.put("a", "answer", 0)
    cache.put("unknown", None, 0)
    assert (cache.get("a", 0), cache.get("unknown", 0), len(cache)) == (("answer",), None, 1)


def test_the_answer_that_was_used_least_recently_goes_first() -> None:
    cache = LookupCache(2, None, None)
    cache.put("a", 1, 0)
    cache.put("b", 2, 0)
    assert cache.get("a", 0) == (1,)
    cache.put("c", 3, 0)
    assert [cache.get(key, 0) for key in "abc"] == [(1,), None, (3,)]


@pytest.mark.parametrize(("answer", "kept_ms"), [("known", 100), (None, 10)])
def test_an_answer_is_kept_for_its_time_and_not_one_millisecond_more(answer: str | None, kept_ms: int) -> None:
    cache = LookupCache(2, ttl_ms=100, missing_ttl_ms=10)
    cache.put("a", answer, 1_000)
    assert cache.get("a", 999 + kept_ms) == (answer,)
    assert cache.get("a", 1_000 + kept_ms) is None
    assert len(cache) == 0
