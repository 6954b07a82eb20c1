"""What a Spark worker gets by value: it checks that this worker can run the parcel, and says in a sentence why not.

It needs the standard library only. The driver registers this module to be pickled by value, so that a worker without streamactors reports
what is missing, not that an import failed."""

from __future__ import annotations

from typing import Any


def check(made_with: dict[str, str]) -> None:
    """Raise RuntimeError in one sentence if this worker has another Python or another streamactors than the driver."""
    import os
    import socket
    import sys

    for path in made_with.get("shipped", "").split(os.pathsep):
        if path and path not in sys.path and os.path.exists(path):
            sys.path.append(path)
    host = socket.gethostname()
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if python != made_with["python"]:
        raise RuntimeError(
            f"Spark's worker on {host} runs Python {python} and the driver {made_with['python']}; both need the same minor version: "
            "set PYSPARK_PYTHON, or spark.pyspark.python, to the same Python on every host"
        )
    try:
        import streamactors
    except ModuleNotFoundError as error:
        raise RuntimeError(
            f"Spark's worker on {host} has no streamactors ({error}); install it on every host, ship an environment with "
            "spark.archives, or spark.sparkContext.addPyFile(a zip of the package) before the query is made"
        ) from None
    version = getattr(streamactors, "__version__", "older than 0.1")
    if version != made_with["streamactors"]:
        raise RuntimeError(
            f"Spark's worker on {host} has streamactors {version} ({streamactors.__file__}) and the driver "
            f"{made_with['streamactors']}; install the same version on every host"
        )


def opened(parcel: bytes, made_with: dict[str, str]) -> Any:
    """Return what is in a parcel. Raises RuntimeError in one sentence if this worker cannot run it."""
    check(made_with)
    import socket

    try:
        from streamactors.spark.shipping.parcel import unpack

        return unpack(parcel)
    except ModuleNotFoundError as error:
        raise RuntimeError(
            f"Spark's worker on {socket.gethostname()} has no module {error.name}, which the graph needs; install it on every host, or ship it with "
            "spark.archives or addPyFile"
        ) from None


def over_batches(parcel: bytes, made_with: dict[str, str]) -> Any:
    """Return the function that mapInArrow calls in a worker: from record batches to record batches."""

    def run(batches: Any) -> Any:
        return opened(parcel, made_with).run(batches)

    return run
