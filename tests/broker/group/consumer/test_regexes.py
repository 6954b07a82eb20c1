"""Subscriptions by regular expression: RE2 alone, in RE2/J's words, and only topics that the member may describe."""

from __future__ import annotations

import pytest

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.consumer.regexes import check_regex, resolve


@pytest.mark.parametrize(
    ("regex", "why"),
    [
        ("[a", "missing closing ]"),
        ("(a", "missing closing )"),
        ("*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("\\", "trailing backslash at end of expression"),
        ("\\8", "invalid escape sequence"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("[z-a]", "invalid character class range"),
    ],
)
def test_an_invalid_expression_is_refused_in_apache_kafkas_words(regex: str, why: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_regex(regex)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert str(refused.value) == f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}."


def test_a_whole_name_must_match_and_the_member_must_see_it() -> None:
    topics = ("t1", "t2", "xt1", "secret-t1")
    found = resolve(["t[12]", ".*t1"], topics, lambda name: not name.startswith("secret"), 7, 9)
    assert {regex: set(each.topics) for regex, each in found.items()} == {"t[12]": {"t1", "t2"}, ".*t1": {"t1", "xt1"}}
    assert {(each.version, each.time_ms) for each in found.values()} == {(7, 9)}


def test_an_expression_that_would_take_python_for_ever_takes_no_time() -> None:
    found = resolve(["(a*)*b"], ["a" * 200], lambda _: True, 0, 0)
    assert found["(a*)*b"].topics == frozenset()
