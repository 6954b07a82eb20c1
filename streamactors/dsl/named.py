"""MODULE:NAME, as commands and Spark's options take it: found, imported, and called if it is a function of no arguments.

MODULE is a module's name or the path of a .py file. The working folder comes first on the import path, as with `python -m`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from streamactors.engine.user_code import user_line
from streamactors.errors import StreamActorsError


class GraphNotFound(StreamActorsError):
    """The module or the graph does not exist, or the name is not a graph."""

    exit_code = 2


class GraphFailed(StreamActorsError):
    """The user's module, or the function in it, raised while the graph was made. `__cause__` is that error."""

    exit_code = 1


def load_named(text: str, kind: type, form: str) -> Any:
    """Return the object that MODULE:NAME names; if it is a function, return the function's result. The caller checks that it is of `kind`.

    `kind`: the wanted class; a callable of that class is not called. `form`: the form of `text`, for errors.
    Raises GraphNotFound or GraphFailed, each in one sentence."""
    where, colon, name = text.rpartition(":")
    if not colon or not where or not name:
        raise GraphNotFound(f"{text!r} names no graph; its form is {form}")
    module = _imported(where)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = [each for each, value in vars(module).items() if isinstance(value, kind)]
            near = get_close_matches(part, [each for each in vars(module) if not each.startswith("_")], n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            others = f"; it has {', '.join(known)}" if known else ""
            raise GraphNotFound(f"{where} has no {name}{meant or others}")
        found = getattr(found, part)
    return found if isinstance(found, kind) or not callable(found) else _called(text, found)


def _called(text: str, function: Any) -> Any:
    try:
        inspect.signature(function).bind()
    except TypeError:
        raise GraphNotFound(f"{text} takes arguments; give a function of none that returns a graph") from None
    except ValueError:
        pass  # a built-in without a signature: calling it tells
    try:
        return function()
    except Exception as error:
        raise GraphFailed(f"{text} raised {_told(error)}") from error


def _imported(where: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        if where.endswith(".py"):
            return _of_file(Path(where))
        return importlib.import_module(where)
    except GraphNotFound:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (where == error.name or where.startswith(error.name + ".")):
            raise GraphNotFound(f"there is no module {error.name!r} here or among the installed ones") from None
        raise GraphFailed(f"importing {where}: {_told(error)}") from error
    except Exception as error:
        raise GraphFailed(f"importing {where}: {_told(error)}") from error


def _of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise GraphNotFound(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise GraphNotFound(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.absolute()))
    sys.modules[path.stem] = module  # so that what the file defines can be found by its module's name
    spec.loader.exec_module(module)
    return module


def _told(error: BaseException) -> str:
    """Return an error with the place in the user's code it came from."""
    place = user_line(error)
    return f"{type(error).__name__}: {error}{f' ({Path(place).name})' if place else ''}"
