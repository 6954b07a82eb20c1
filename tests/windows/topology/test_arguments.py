"""The number of arguments of a user's function is checked when the topology is built, not at the first row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors import Source
from streamactors.errors import BuildError
from streamactors.windows import Record
from streamactors.windows.topology.topics import TopologyTopics


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda t: t.stream("clicks").select_key(lambda key, value: value), r"select_key calls fn\(record\), and <lambda>\(key, value\) at .*test_arguments"),
        (lambda t: t.stream("clicks").map_values(lambda key, value: value), r"map_values calls fn\(value\)"),
        (lambda t: t.stream("clicks").filter(lambda: True), r"filter calls fn\(record\)"),
        (lambda t: t.stream("clicks").group_by(lambda key, value: value), r"select_key calls fn\(record\)"),
        (lambda t: t.table("users").group_by(lambda record: record), r"group_by of a table calls fn\(key, value\)"),
        (lambda t: t.table("users").map_values(lambda key, value: value), r"map_values calls fn\(value\)"),
        (lambda t: t.stream("clicks").join_table(t.table("users"), lambda row: row), r"join_table calls fn\(value, table_value\)"),
        (lambda t: Source.single(Record("a", 1, 1)).key_by(lambda key, value: value), r"key_by calls fn\(record\)"),
    ],
)  # fmt: skip
def test_a_function_of_other_arguments_is_refused(build: Callable[[TopologyTopics], Any], said: str) -> None:
    with pytest.raises(BuildError, match=said):
        build(TopologyTopics("strict"))


def test_functions_with_defaults_any_arguments_or_no_signature_are_taken() -> None:
    stream = TopologyTopics("strict").stream("clicks")

    def with_default(record: Any, scale: int = 1) -> Any:
        return record.value * scale

    for fn in (with_default, lambda *given: given, str, len, "{}".format):
        stream.select_key(fn)
