"""The subjects of the test registry: versions that are deleted in two steps, levels, and what a file keeps of both."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from streamactors.testing.registry.server import LARGEST_BODY, SchemaRegistry
from streamactors.testing.registry.subjects import LEVELS, RegistryError, Subjects

INT, TEXT, LONG = '"int"', '"string"', '"long"'


def code_of(call: Any) -> int:
    with pytest.raises(RegistryError) as refused:
        call()
    return refused.value.code


@pytest.fixture
def subjects() -> Subjects:
    """Two versions of `a`, one of them also in `b`; nothing is compared."""
    made = Subjects()
    made.set_level(None, "NONE")
    assert [made.register("a", "AVRO", INT), made.register("a", "AVRO", TEXT), made.register("b", "AVRO", INT)] == [
        1,
        2,
        1,
    ]
    return made


def test_a_schema_is_found_by_its_id_its_subject_and_its_versions(subjects: Subjects) -> None:
    assert subjects.uses(1) == [("a", 1), ("b", 1)]
    assert subjects.uses(2) == [("a", 2)]
    assert subjects.lookup("a", "AVRO", TEXT) == {"subject": "a", "version": 2, "id": 2, "schema": TEXT}
    assert (
        subjects.version("a", "latest")
        == subjects.version("a", -1)
        == subjects.version("a", "-1")
        == subjects.version("a", "2")
    )
    assert code_of(lambda: subjects.uses(3)) == code_of(lambda: subjects.schema(3)) == 40403
    assert code_of(lambda: subjects.lookup("b", "AVRO", TEXT)) == 40403
    assert code_of(lambda: subjects.version("a", 3)) == 40402
    assert [code_of(lambda v=v: subjects.version("a", v)) for v in (0, "0", "x", "")] == [42202] * 4
    assert code_of(lambda: subjects.version("c", 1)) == code_of(lambda: subjects.subject("c")) == 40401


def test_the_same_schema_is_one_version(subjects: Subjects) -> None:
    assert subjects.register("a", "AVRO", ' "int" ') == 1
    assert subjects.subject("a").live() == [1, 2]


def test_a_deleted_version_is_hidden_until_it_is_asked_for_or_removed(subjects: Subjects) -> None:
    assert subjects.delete("a", "latest", permanent=False) == [2]
    assert subjects.subject("a").live() == [1]
    assert code_of(lambda: subjects.version("a", 2)) == 40402
    assert subjects.version("a", 2, deleted=True)["schema"] == TEXT
    assert subjects.uses(2) == []
    assert code_of(lambda: subjects.delete("a", 1, permanent=True)) == 40407
    assert subjects.delete("a", 2, permanent=True) == [2]
    assert code_of(lambda: subjects.version("a", 2, deleted=True)) == 40402
    assert subjects.register("a", "AVRO", TEXT) == 2
    assert subjects.subject("a").live() == [1, 3], "a version's number is not used again"


def test_a_subject_is_deleted_in_two_steps(subjects: Subjects) -> None:
    assert code_of(lambda: subjects.delete("a", None, permanent=True)) == 40405
    assert subjects.delete("a", None, permanent=False) == [1, 2]
    assert (subjects.names(), subjects.names(deleted=True)) == (["b"], ["a", "b"])
    assert code_of(lambda: subjects.subject("a")) == 40401
    assert code_of(lambda: subjects.delete("a", None, permanent=False)) == 40404
    assert subjects.delete("a", None, permanent=True) == [1, 2]
    assert subjects.names(deleted=True) == ["b"]
    assert code_of(lambda: subjects.delete("a", None, permanent=False)) == 40401
    assert code_of(lambda: subjects.delete("c", 1, permanent=False)) == 40401


def test_a_level_is_the_subjects_own_or_that_of_all(subjects: Subjects) -> None:
    assert subjects.level_of(None) == subjects.level_of("a") == "NONE"
    assert code_of(lambda: subjects.level_of("a", default_to_global=False)) == 40408
    assert subjects.set_level("a", "FULL") == "NONE"
    assert (subjects.level_of("a"), subjects.level_of("a", default_to_global=False)) == ("FULL", "FULL")
    assert subjects.set_level("a", None) == "FULL"
    assert subjects.level_of("a") == "NONE"
    assert subjects.set_level(None, None) == "NONE"
    assert subjects.level_of("b") == Subjects().level_of(None) == "BACKWARD"
    assert code_of(lambda: subjects.set_level("a", "SIDEWARD")) == 42203
    assert len(LEVELS) == 7


@pytest.mark.parametrize(
    ("level", "widened", "narrowed"),
    [("NONE", 0, 0), ("BACKWARD", 0, 1), ("FORWARD", 1, 0), ("FULL", 1, 1), ("FULL_TRANSITIVE", 1, 1)],
)
def test_each_side_that_must_read_the_other_has_its_problem(level: str, widened: int, narrowed: int) -> None:
    subjects = Subjects()
    subjects.register("wide", "AVRO", INT)
    subjects.register("narrow", "AVRO", LONG)
    subjects.set_level(None, level)
    assert (len(subjects.problems("wide", "AVRO", LONG)), len(subjects.problems("narrow", "AVRO", INT))) == (
        widened,
        narrowed,
    )
    assert subjects.problems("new", "AVRO", INT) == []


def test_a_version_is_compared_alone_and_a_level_without_transitive_looks_at_the_last() -> None:
    subjects = Subjects()
    subjects.register("a", "AVRO", INT)
    subjects.set_level("a", "NONE")
    subjects.register("a", "AVRO", TEXT)
    subjects.set_level("a", "BACKWARD")
    assert len(subjects.problems("a", "AVRO", LONG)) == 1
    assert subjects.problems("a", "AVRO", LONG, version=1) == []
    subjects.set_level("a", "BACKWARD_TRANSITIVE")
    assert subjects.problems("a", "AVRO", TEXT) != []
    assert "version 1 (BACKWARD_TRANSITIVE)" in subjects.problems("a", "AVRO", TEXT)[-1]


def test_another_type_is_incompatible_and_an_unknown_one_is_no_schema(subjects: Subjects) -> None:
    subjects.set_level(None, "BACKWARD")
    assert code_of(lambda: subjects.register("a", "JSON", '{"type": "string"}')) == 409
    assert code_of(lambda: subjects.register("a", "XML", "<a/>")) == 42201
    assert code_of(lambda: subjects.register("a", "AVRO", '{"type": 5}')) == 42201
    assert code_of(lambda: subjects.register("a", "JSON", "{")) == 42201
    assert subjects.register("p", "PROTOBUF", 'syntax = "proto3";', [{"name": "x"}]) == 3
    assert subjects.version("p", 1) == {
        "subject": "p",
        "version": 1,
        "id": 3,
        "schema": 'syntax = "proto3";',
        "schemaType": "PROTOBUF",
        "references": [{"name": "x"}],
    }


def test_a_file_gives_the_same_registry_again(tmp_path: Path) -> None:
    path = tmp_path / "registry"
    first = Subjects(path)
    first.set_level("a", "NONE")
    for text in (INT, TEXT, LONG):
        first.register("a", "AVRO", text)
    first.register("b", "JSON", '{"type": "string"}', [{"name": "r"}])
    first.delete("a", 2, permanent=False)
    first.delete("a", 2, permanent=True)
    first.delete("a", 1, permanent=False)
    first.set_level(None, "FULL")
    changes = path.read_text()
    again = Subjects(path)
    for name in ("a", "b"):
        assert again._subjects[name] == first._subjects[name]
    assert (again.level, again._schemas, again._ids) == ("FULL", first._schemas, first._ids)
    assert path.read_text() == changes, "reading a file writes nothing"
    assert again.register("a", "AVRO", TEXT) == 2


def test_requests_have_the_statuses_and_answers_of_the_protocol() -> None:
    registry = SchemaRegistry()
    try:
        body = {"schema": INT}
        assert registry.answer("GET", "/", None) == (200, {})
        assert registry.answer("GET", "/schemas/types", None) == (200, ["JSON", "PROTOBUF", "AVRO"])
        assert registry.answer("POST", "/subjects/a%2Fb/versions", body) == (200, {"id": 1})
        assert registry.answer("GET", "/subjects", None) == (200, ["a/b"])
        assert registry.answer("GET", "/subjects/a%2Fb/versions/", None) == (200, [1])
        assert registry.answer("GET", "/schemas/ids/1/schema", None) == (200, "int")
        assert registry.answer("GET", "/schemas/ids/1/subjects", None) == (200, ["a/b"])
        assert registry.answer("GET", "/schemas/ids/1/versions", None) == (200, [{"subject": "a/b", "version": 1}])
        assert registry.answer("GET", "/subjects/a%2Fb/versions/latest/schema", None) == (200, "int")
        assert registry.answer("POST", "/subjects/a%2Fb", body)[1]["version"] == 1
        assert registry.answer("GET", "/mode", None) == (200, {"mode": "READWRITE"})
        assert registry.answer("PUT", "/config/a%2Fb", {"compatibility": "NONE"})[0] == 200
        assert registry.answer("DELETE", "/config/a%2Fb", None) == (200, {"compatibility": "NONE"})
        assert registry.answer("DELETE", "/subjects/a%2Fb/versions/1", None) == (200, 1)
        assert registry.answer("GET", "/subjects?deleted=true", None) == (200, ["a/b"])
        assert registry.answer("DELETE", "/subjects/a%2Fb?permanent=true", None) == (200, [1])
        assert registry.answer("GET", "/subjects/a%2Fb/versions", None) == (
            404,
            {"error_code": 40401, "message": "Subject 'a/b' not found."},
        )
        assert registry.answer("PATCH", "/subjects", None)[0] == registry.answer("GET", "/other", None)[0] == 404
    finally:
        registry.close()
    assert LARGEST_BODY == 10 * 1024 * 1024


def test_a_body_that_is_too_long_or_no_json_is_refused_on_the_wire() -> None:
    with SchemaRegistry() as registry:
        for data, size, status in (
            (b"{", None, 400),
            (b"", str(LARGEST_BODY + 1), 413),
            (b"", "many", 413),
            (b"", "0", 200),
        ):
            connection = http.client.HTTPConnection(registry.url.removeprefix("http://"), timeout=30)
            connection.putrequest("GET", "/subjects")
            connection.putheader("Content-Length", size or str(len(data)))
            connection.endheaders(data)
            answer = connection.getresponse()
            said = json.loads(answer.read())
            assert answer.status == status
            assert said == [] if status == 200 else said["error_code"] == status
            connection.close()
