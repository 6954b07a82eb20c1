"""A job: an importable function and its arguments, as bytes that a worker process gets when it is started.

Functions among the arguments go by import name, else by cloudpickle (extra `processes`). Only these bytes are unpickled, and they
are an argument of the spawned process. No bytes from a socket are unpickled.

Functions of `__main__` go by value with cloudpickle. Without it the process imports the program again under another name, as
multiprocessing does; the program must then start its streams under `if __name__ == "__main__":`."""

from __future__ import annotations

import json
import pickle
import sys
from typing import Any, Final

from streamactors.errors import BuildError

HOW: Final = "define the function with def in a module, or pip install 'streamactors[processes]' (cloudpickle)"

_main_is_imported = False


class CannotGo(BuildError):
    """A part of a job cannot be sent to a worker process. `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def note_import_of_main(running: bool) -> None:
    """The worker process begins, or has ended, the import of the parent's program."""
    global _main_is_imported
    _main_is_imported = running


def job_of(function: str, *arguments: Any) -> bytes:
    """Return the job. In the process `function(channel, *arguments)` is called; `function` is its name, as module:function.

    Raises CannotGo for an argument that cannot be pickled, and in a worker process that is just importing the parent's program."""
    if _main_is_imported:
        program = getattr(sys.modules.get("__mp_main__"), "__file__", None) or "this program"
        raise CannotGo(
            f"{program} starts a stream with worker processes when it is imported, and a worker process imports it; "
            'put the start under if __name__ == "__main__":'
        )
    payload = pickled(arguments)
    head: dict[str, Any] = {"path": sys.path, "function": function}
    if b"__main__" in payload and not _has_cloudpickle():
        head["main"] = _main()
    return json.dumps(head).encode() + b"\n" + payload


def pickled(value: Any) -> bytes:
    """Return `value` pickled, by cloudpickle where it is installed. Raises CannotGo."""
    try:
        if _has_cloudpickle():
            import cloudpickle

            data: bytes = cloudpickle.dumps(value)
            return data
        return pickle.dumps(value)
    except Exception as error:
        more = "" if _has_cloudpickle() else f"; {HOW}"
        raise CannotGo(f"{type(error).__name__}: {error}{more}") from error


def _has_cloudpickle() -> bool:
    try:
        import cloudpickle  # noqa: F401
    except ImportError:
        return False
    return True


def _main() -> dict[str, str]:
    """Return where the program of this process is: the name of its module, or the path of its file."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return {"name": spec.name}
    path = getattr(main, "__file__", None)
    if path is None:
        raise CannotGo(f"a function was defined in an interactive interpreter; {HOW}")
    return {"path": path}
