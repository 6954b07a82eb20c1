"""Parcels: stages and user functions as bytes, packed in the driver and opened in Spark's workers.

Lambdas, nested functions and what `__main__` defines travel by value, as PySpark's own functions do. So do the functions of modules that
are not installed (scripts, notebooks' helpers, tests), because a worker could not import them. Installed modules travel by name.
Only the driver's own JVM hands parcels to workers; nothing is unpickled from a socket of this package."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, Final

from streamactors import __version__
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.spark.shipping.chain import Link

MOST_OPEN: Final = 16
"""Parcels that a worker keeps open; a query has one."""

_REGISTRY: Final = threading.RLock()
"""The registry is one for the process: a thread must not take out what another one is pickling."""

_PACKAGES: Final = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
"""Folders of installed packages: those of the interpreter, of the user (pip install --user), of the system under a virtual environment."""

_open: OrderedDict[bytes, Any] = OrderedDict()


def pack(value: Any, who: str, links: Iterable[Link] = ()) -> bytes:
    """Return `value` as bytes. Raises BuildError naming the one of `links` that cannot be pickled."""
    cloudpickle = _cloudpickle()
    with _uninstalled_by_value(cloudpickle):
        try:
            return bytes(cloudpickle.dumps(value))
        except Exception as error:
            for link in links:
                reason = _refused(cloudpickle, link)
                if reason is not None:
                    raise BuildError(
                        f"{who}: stage '{link.label}' cannot be sent to Spark's workers: {reason}; make such an object "
                        "inside the function, at its first use there"
                    ) from error
            raise BuildError(f"{who}: it cannot be sent to Spark's workers: {shortened(error, 200)}") from error


def unpack(parcel: bytes) -> Any:
    """Return what `pack` packed; the same object for the same bytes, as long as this process keeps it."""
    found = _open.get(parcel)
    if found is None:
        found = _open[parcel] = _cloudpickle().loads(parcel)
        if len(_open) > MOST_OPEN:
            _open.popitem(last=False)
    return found


def made_with() -> dict[str, str]:
    """Return the versions that the driver runs, with which a worker compares its own, and where this host has what was given to addPyFile."""
    return {
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "streamactors": __version__,
        "shipped": os.pathsep.join(_shipped()),
    }


def _shipped() -> list[str]:
    """Return the zip files of addPyFile, as they lie on the driver's host.

    Spark adds them to the path of tasks, but not to that of the process on the driver's host that plans a streaming query."""
    from pyspark import SparkContext, SparkFiles

    context = SparkContext._active_spark_context
    if context is None:
        return []  # Spark Connect: the server's host has them
    return [os.path.join(SparkFiles.getRootDirectory(), name) for name in context._python_includes or ()]


def by_value(*modules: ModuleType) -> Any:
    """Return a context in which the functions and classes of these modules are pickled by value."""
    return _registered(_cloudpickle(), modules)


def copied(fn: Any, *modules: ModuleType) -> Any:
    """Return a copy of a function of these modules that is pickled by value whenever that happens: Spark Connect pickles it with its query."""
    cloudpickle = _cloudpickle()
    with _registered(cloudpickle, modules):
        return cloudpickle.loads(cloudpickle.dumps(fn))


def _cloudpickle() -> Any:
    """Return PySpark's own, which is untyped: the workers have it in any case."""
    from pyspark import cloudpickle

    return cloudpickle


def _refused(cloudpickle: Any, link: Link) -> str | None:
    try:
        cloudpickle.dumps(link)
    except Exception as error:  # noqa: BLE001
        return shortened(error, 200)
    return None


@contextmanager
def _registered(cloudpickle: Any, modules: Iterable[ModuleType]) -> Iterator[None]:
    with _REGISTRY:
        registered = []
        for module in modules:
            if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                registered.append(module)
        try:
            yield
        finally:
            for module in registered:
                cloudpickle.unregister_pickle_by_value(module)


@contextmanager
def _uninstalled_by_value(cloudpickle: Any) -> Iterator[None]:
    modules = [
        module
        for name, module in sys.modules.copy().items()  # another thread may import meanwhile
        if isinstance(module, ModuleType) and module.__name__ == name and not _is_installed(module)
    ]
    with _registered(cloudpickle, modules):
        yield


def _is_installed(module: ModuleType) -> bool:
    """True for a module that a worker can import: of the standard library, in site-packages, and this package itself."""
    if module.__name__ == "__main__" or module.__name__.partition(".")[0] in ("streamactors", "pyspark"):
        return True
    file = getattr(module, "__file__", None)
    return file is None or str(file).startswith(_installed_folders()) or any(each in str(file) for each in _PACKAGES)


@cache
def _installed_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(sorted({paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}))
