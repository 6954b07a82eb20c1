"""Part: the base of Source, Flow, Sink and the other parts of a graph. Immutable, so any number of graphs may share one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from streamactors.dsl.typevars import Mat
from streamactors.engine.attributes import NONE, Attributes
from streamactors.engine.blueprint.modules import Attributed, Combine, Joined, MatMapped, Module, StageModule, keep_left
from streamactors.engine.stage import NOT_USED, GraphStage
from streamactors.engine.supervision import checked_decider
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.stages.bases.passing import Identity
from streamactors.stages.checks import positive

if TYPE_CHECKING:
    from typing import Self

    from streamactors.engine.attributes import CancellationStrategy
    from streamactors.engine.supervision import Decider
    from streamactors.mime_bundles import Bundle


_CONSTRUCTORS = {"Sink": "Sink.foreach(…)", "Flow": "Flow.map(…)", "RunnableGraph": "source.to(sink)"}


class Part(Generic[Mat]):
    """A blueprint with a shape. Runs share nothing."""

    __slots__ = ("module",)
    ports: ClassVar[tuple[int, int] | None] = None
    """Inlets and outlets that every part of the class has; None: any number."""

    def __init__(self, module: Module) -> None:
        if not isinstance(module, Module):
            kind = type(self).__name__
            way_out = (
                "Source.from_iterable(…)"
                if kind == "Source"
                else f"a constructor such as {_CONSTRUCTORS.get(kind, 'GraphDSL')}"
            )
            raise BuildError(f"{kind} cannot be made of {type(module).__name__} {shortened(module, 60)}; use {way_out}")
        found = (len(module.shape.inlets), len(module.shape.outlets))
        if self.ports is not None and found != self.ports:
            raise BuildError(
                f"a {type(self).__name__} has {self.ports[0]} inlets and {self.ports[1]} outlets; "
                f"this graph has {found[0]} and {found[1]}"
            )
        self.module = module

    def named(self, name: str) -> Self:
        """Return this part with another name for its last operator, or for the whole part if it is a graph. Errors, snapshots
        and pictures show the name."""
        if not isinstance(name, str) or not name:
            raise BuildError(f"named expects a string that is not empty, got {shortened(name, 60)}")
        return self._remade(_renamed(self.module, name))

    def with_attributes(
        self,
        *,
        buffer: int | None = None,
        max_chunk: int | None = None,
        decider: Decider | None = None,
        cancellation: CancellationStrategy | None = None,
    ) -> Self:
        """Return this part with attributes for every stage in it; attributes set on a stage inside win.

        buffer: the number of elements that an async boundary may hold. max_chunk: the largest chunk (1: one element at a time).
        decider: called with the error when a user function has raised; returns Directive.STOP, RESUME or RESTART, for operators
        that honour supervision. cancellation: called with the cause when a stage is cancelled; returns an error to fail the stage
        with, None to complete it."""
        if buffer is not None:
            positive("with_attributes", "buffer", buffer)
        if max_chunk is not None:
            positive("with_attributes", "max_chunk", max_chunk)
        for what, value in (("decider", decider), ("cancellation", cancellation)):
            if value is not None and not callable(value):
                raise BuildError(f"with_attributes: {what} must be a function of the error, got {shortened(value, 60)}")
        return self._attributed(
            Attributes(
                buffer=buffer,
                max_chunk=max_chunk,
                decider=None if decider is None else checked_decider(decider),
                cancellation=cancellation,
            )
        )

    def max_chunk(self, n: int) -> Self:
        """Return this part with chunks of at most `n` elements; 1 moves every element by itself."""
        return self.with_attributes(max_chunk=n)

    def _attributed(self, attributes: Attributes) -> Self:
        return self._remade(Attributed(self.module, attributes))

    def _remade(self, module: Module) -> Self:
        """Return a part of this part's kind over another blueprint of the same type."""
        return type(self)(module)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({labels(self.module)})"

    def to_svg(self) -> str | None:
        """Return the part as an SVG image: its stages as they will run, after fusing, in their islands. None for a graph of more stages than can
        be drawn. Raises BuildError as `run` does."""
        from streamactors.engine.planning.picture import picture_of
        from streamactors.engine.planning.svg import svg

        return svg(*picture_of(self.module))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """Show the part in a notebook as a picture, beside its text."""
        from streamactors.mime_bundles import said_bundle

        try:
            picture = self.to_svg()
        except BuildError as error:
            return said_bundle(f"{self!r}, which cannot run: {error}")
        if picture is None:
            return said_bundle(f"{self!r}: too many stages to draw")
        return {"text/plain": repr(self), "image/svg+xml": picture}


def _renamed(module: Module, name: str) -> Module:
    if isinstance(module, Joined):
        return Joined(module.left, _renamed(module.right, name), module.combine)
    if isinstance(module, MatMapped):
        return MatMapped(_renamed(module.inner, name), module.fn)
    if isinstance(module, Attributed):
        return Attributed(_renamed(module.inner, name), replace(module.attributes, name=None))
    if isinstance(module, StageModule):
        return StageModule(module.stage, module.attributes.merged(Attributes(name=name)))
    return Attributed(module, Attributes(name=name))


def last_is_named(module: Module) -> bool:
    """Return whether the last operator of a module has a name that somebody has given it."""
    while True:
        if isinstance(module, Joined):
            module = module.right
        elif isinstance(module, MatMapped):
            module = module.inner
        elif isinstance(module, Attributed):
            if module.attributes.name is not None:
                return True
            module = module.inner
        else:
            return isinstance(module, StageModule) and module.attributes.name is not None


def labels(module: Module, limit: int = 200) -> str:
    """Return the names of a module's stages in order, shortened."""
    names: list[str] = []
    work: list[tuple[Module, str | None]] = [(module, None)]
    while work:
        here, name = work.pop()
        if isinstance(here, StageModule):
            names.append(name or here.attributes.name or here.stage.label)
        elif isinstance(here, Attributed):
            work.append((here.inner, here.attributes.name or name))
        elif isinstance(here, MatMapped):
            work.append((here.inner, name))
        elif name is not None:
            names.append(name)
        elif isinstance(here, Joined):
            work += [(here.right, None), (here.left, None)]
        else:
            work += [(part, None) for part in reversed(getattr(here, "parts", ()))]
    text = " -> ".join(names)
    return text if len(text) <= limit else text[: limit - 1] + "…"


_WHAT = {(0, 1): "a Source", (1, 1): "a Flow", (1, 0): "a Sink", (2, 2): "a BidiFlow", (0, 0): "a closed graph"}


def module_of(operator: str, value: Any, ports: tuple[int, int] | None) -> Module:
    """Return the blueprint of a part or a stage. Raises BuildError when it is not one, or has other ports than expected."""
    module: Any = value
    if isinstance(value, GraphStage):
        module = StageModule(value)
    elif not isinstance(value, Module):
        module = getattr(value, "module", None)
    if not isinstance(module, Module):
        expected = _WHAT[ports] if ports is not None else "a part of a graph"
        raise BuildError(
            f"{operator} expects {expected}, got {type(value).__name__} {shortened(value, 60)}{_way_out(value, expected)}"
        )
    found = (len(module.shape.inlets), len(module.shape.outlets))
    if ports is not None and found != ports:
        given = _WHAT.get(found) or f"a part with {found[0]} inlets and {found[1]} outlets"
        raise BuildError(f"{operator} expects {_WHAT[ports]}, got {given}: {labels(module, 60)}")
    return module


_OF_A_FUNCTION = {"a Sink": "Sink.foreach", "a Flow": "Flow.map", "a Source": "Source.from_iterable"}


def _way_out(value: Any, expected: str) -> str:
    """Return what to write instead of a class, a constructor without its parentheses, or a function."""
    owner = getattr(value, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, Part):
        name = f"{owner.__name__}.{value.__name__}"
        return f"; call it: {name}(…)" if _needs_arguments(value) else f"; call it: {name}()"
    if isinstance(value, type) and value.__name__ in _CONSTRUCTORS:
        return f"; a class was given: use a constructor such as {_CONSTRUCTORS[value.__name__]}"
    if isinstance(value, type):
        return "; a class was given: make an instance"
    if inspect.isroutine(value) and expected in _OF_A_FUNCTION:
        called = "()" if expected == "a Source" else ""
        return f"; make one of the function: {_OF_A_FUNCTION[expected]}({getattr(value, '__name__', 'fn')}{called})"
    return ""


def _needs_arguments(value: Callable[..., Any]) -> bool:
    parameters = inspect.signature(value).parameters.values()
    return any(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in parameters)


def is_identity(module: Module) -> bool:
    """True for the identity flow without attributes; joining leaves it out."""
    return type(module) is StageModule and type(module.stage) is Identity and module.attributes is NONE


def joined(left: Module, right: Module, combine: Combine = keep_left) -> Module:
    """Return `left` feeding `right`."""
    if combine is keep_left:
        if is_identity(right):
            return left
        if is_identity(left):
            return MatMapped(right, not_used)
    return Joined(left, right, combine)


def not_used(_: Any) -> Any:
    """Return NotUsed instead of a materialized value."""
    return NOT_USED


def checked_combine(operator: str, combine: Callable[..., Any]) -> Callable[..., Any]:
    """Return `combine` if it can be called."""
    if not callable(combine):
        raise BuildError(f"{operator} expects a function of two materialized values, got {shortened(combine, 60)}")
    return combine


def one_by_one(parts: tuple[Any, ...], strategy: Any) -> tuple[Sequence[Any], Any]:
    """Return the parts and the strategy of `f(a, b, strategy=s)`, `f([a, b], strategy=s)` or `f([a, b], s)`."""
    if not parts or isinstance(parts[0], Part) or not isinstance(parts[0], Iterable):
        return parts, strategy
    listed, *more = parts
    if len(more) > 1:
        raise BuildError(
            f"expected a list and a strategy, or one by one, got a {type(listed).__name__} and {len(more)} more"
        )
    return list(listed), more[0] if more else strategy
