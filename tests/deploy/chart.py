"""Renders the Helm chart without Helm: the part of Go's templates that the chart uses. What it does not know is an error, not a guess.

`python -m tests.deploy.chart` writes deploy/kubernetes/: the chart with its defaults."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CHART: Final = DEPLOY / "helm" / "streamactors"
MADE: Final = "# Made of deploy/helm/streamactors with its defaults: python -m tests.deploy.chart"
_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\(|\)|\||:=|,|[^\s()|,"]+')

Scope = dict[str, Any]
Node = tuple[Any, ...]


def merged(base: Any, over: Any) -> Any:
    """Return values over the chart's defaults, as `helm --values` merges them."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return {**base, **{key: merged(base.get(key), value) for key, value in over.items()}}
    return over


def values(**given: Any) -> dict[str, Any]:
    """Return the chart's values with some others over them."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    return merged(defaults, given)  # type: ignore[no-any-return]


def rendered(release: str = "streamactors", **given: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the objects of each template by its file name, without templates that render nothing."""
    found = {name: list(yaml.safe_load_all(text)) for name, text in texts(release, **given).items()}
    return {name: each for name, each in found.items() if any(each)}


def texts(release: str = "streamactors", **given: Any) -> dict[str, str]:
    """Return the text that each template renders."""
    files = {path.name: path.read_text() for path in sorted((CHART / "templates").iterdir()) if path.suffix != ".txt"}
    chart = Chart(files)
    root = {"Values": values(**given), "Release": {"Name": release, "Namespace": "default"}}
    return {name: chart.render(name, root) for name in files if name.endswith(".yaml")}


def manifests() -> dict[str, str]:
    """Return the files of deploy/kubernetes that are made of the chart."""
    plain, scaled = texts(), texts(keda={"enabled": True})
    wanted = {"broker.yaml": plain, "pipeline.yaml": plain, "scaledobject.yaml": scaled}
    return {name: f"{MADE}\n{source[name].strip()}\n" for name, source in wanted.items()}


class Chart:
    """Templates by name; blocks that they define are known to all of them."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._trees: dict[str, list[Node]] = {}
        for name, text in texts.items():
            tree, rest = self._parse(list(_pieces(text)))
            assert not rest, f"{name}: an end too many"
            self._trees[name] = tree

    def render(self, name: str, dot: Any, root: Any = None) -> str:
        return self._run(self._trees[name], dot, {"$": dot if root is None else root})

    def _parse(self, pieces: list[Node]) -> tuple[list[Node], list[Node]]:
        tree: list[Node] = []
        while pieces:
            kind, body = pieces.pop(0)
            word, _, rest = body.partition(" ") if kind == "tag" else ("", "", "")
            if word in ("end", "else"):
                return tree, [(kind, body)]
            if word in ("if", "range", "define"):
                inner, closing = self._parse(pieces)
                other: list[Node] = []
                if closing[0][1] == "else":
                    other, closing = self._parse(pieces)
                assert closing[0][1] == "end", closing
                if word == "define":
                    self._trees[json.loads(rest)] = inner
                else:
                    tree.append((word, rest, inner, other))
            else:
                tree.append((kind, body))
        return tree, []

    def _run(self, tree: list[Node], dot: Any, names: Scope) -> str:
        out = ""
        for node in tree:
            if node[0] == "text":
                out += node[1]
            elif node[0] == "tag":
                out += _as_text(self._value(node[1], dot, names))
            elif node[0] == "if":
                out += self._run(node[2] if self._value(node[1], dot, names) else node[3], dot, names)
            else:
                out += self._range(node, dot, names)
        return out

    def _range(self, node: Node, dot: Any, names: Scope) -> str:
        bound, assigned, over = node[1].rpartition(":=")
        found = self._value(over, dot, names)
        pairs = sorted(found.items()) if isinstance(found, Mapping) else list(enumerate(found))
        own = [name.strip() for name in bound.split(",")] if assigned else []
        return "".join(
            self._run(node[2], value, {**names, **dict(zip(own, (key, value), strict=False))}) for key, value in pairs
        )

    def _value(self, text: str, dot: Any, names: Scope) -> Any:
        words = _WORD.findall(text)
        found = self._pipeline(words, dot, names)
        assert not words, f"not understood: {text}"
        return found

    def _pipeline(self, words: list[str], dot: Any, names: Scope) -> Any:
        piped: list[Any] = []
        while True:
            arguments: list[Any] = []
            function = words.pop(0) if words and words[0].isidentifier() else None
            while words and words[0] not in ("|", ")"):
                word = words.pop(0)
                if word == "(":
                    arguments.append(self._pipeline(words, dot, names))
                    words.pop(0)
                else:
                    arguments.append(_operand(word, dot, names))
            piped = [self._call(function, [*arguments, *piped], names)]
            if not words or words[0] == ")":
                return piped[0]
            words.pop(0)

    def _call(self, function: str | None, arguments: list[Any], names: Scope) -> Any:
        match function, arguments:
            case None, [value]:
                return value
            case "include", [name, dot]:
                return self.render(name, dot, names["$"])
            case "quote", [value]:
                return json.dumps(_as_text(value))
            case "int64", [value]:
                return int(value)
            case "add", _:
                return sum(map(int, arguments))
            case "not", [value]:
                return not value
            case "and", _:
                return next((each for each in arguments if not each), arguments[-1])
            case "printf", [form, *rest]:
                return form % tuple(map(_as_text, rest))
            case "nindent", [width, text]:
                return "\n" + "\n".join(" " * width + line if line else line for line in text.split("\n"))
            case "toYaml", [value]:
                return yaml.safe_dump(value, default_flow_style=False).rstrip("\n")
        raise AssertionError(f"the chart calls {function} with {len(arguments)} arguments, which tests do not know")


def _operand(word: str, dot: Any, names: Scope) -> Any:
    if word.startswith('"'):
        return json.loads(word)
    if word.lstrip("-").isdigit():
        return int(word)
    start, *path = word.split(".")
    value = dot if start == "" else names[start]
    for name in filter(None, path):
        value = value[name]  # a value that values.yaml does not have is an error
    return value


def _as_text(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _pieces(text: str) -> Iterator[Node]:
    """Yield ("text", …) and ("tag", …), with the white space that `{{-` and `-}}` take."""
    while True:
        before, opening, rest = text.partition("{{")
        if not opening:
            yield "text", before
            return
        body, _, text = rest.partition("}}")
        if body.startswith("-"):
            before, body = before.rstrip(), body[1:]
        if body.endswith("-"):
            text, body = text.lstrip(), body[:-1]
        yield "text", before
        yield "tag", body.strip()


if __name__ == "__main__":
    for file, text in manifests().items():
        (DEPLOY / "kubernetes" / file).write_text(text)
