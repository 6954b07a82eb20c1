"""The expected totals, computed directly from the package by pandas: no stream, no broker, no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamactors.demo.alerts import CANCELLED_SHARE, MEAN_DELAY_MINUTES
from streamactors.demo.data import PLANTED_EVERY, data_file, weather_frame

if TYPE_CHECKING:
    import pandas as pd

HOUR_MS: Final = 3_600_000
GRACE_MS: Final = 2 * HOUR_MS
WEATHER: Final = ["temp", "wind_speed", "precip", "visib", "pressure"]


class Truth:
    """Made from the frame of flights in the order in which they left."""

    def __init__(self, flights: pd.DataFrame) -> None:
        self.flights = len(flights)
        self.planted = len(flights) // PLANTED_EVERY
        rows = flights.assign(
            hour_ms=flights["scheduled_at_ms"] // HOUR_MS * HOUR_MS, cancelled=flights["dep_delay"].isna()
        )
        late = self._late(rows)
        self.late = int(late.sum())
        self.by_airline = self._by_airline(rows)
        self.hours = self._hours(rows[~late])
        self.alerts = self._alerts(self.hours)

    @staticmethod
    def _late(rows: pd.DataFrame) -> pd.Series[bool]:
        """A flight is late if an earlier record of its origin is at or after the end of the hour of the flight plus the grace."""
        newest_before = rows.groupby("origin")["scheduled_at_ms"].transform(
            lambda times: times.cummax().shift(fill_value=0)
        )
        return rows["hour_ms"] + HOUR_MS + GRACE_MS <= newest_before

    @staticmethod
    def _by_airline(rows: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        names = pd.read_csv(data_file("airlines.csv")).set_index("carrier")["name"]
        return by_airline(rows.assign(airline=rows["carrier"].map(names)))

    @staticmethod
    def _hours(rows: pd.DataFrame) -> pd.DataFrame:
        hours = rows.groupby(["origin", "hour_ms"], as_index=False).agg(
            flights=("cancelled", "size"), cancelled=("cancelled", "sum"), minutes=("dep_delay", "sum")
        )
        left = hours["flights"] - hours["cancelled"]
        hours["mean_delay"] = (hours.pop("minutes") / left).where(left > 0)
        weather = weather_frame()[["origin", "hour_ms", *WEATHER]]
        return hours.merge(weather, "left", ["origin", "hour_ms"]).sort_values(["origin", "hour_ms"], ignore_index=True)

    @staticmethod
    def _alerts(hours: pd.DataFrame) -> pd.DataFrame:
        cancelled = hours["cancelled"] >= CANCELLED_SHARE * hours["flights"]
        delayed = hours["mean_delay"] >= MEAN_DELAY_MINUTES
        cause = cancelled.map({True: "cancellations", False: ""}).where(cancelled | ~delayed, "delays")
        was = cause.groupby(hours["origin"]).shift(fill_value="")
        alerts = hours[["origin", "hour_ms"]].assign(cause=cause, was=was)
        return alerts[cause != was].reset_index(drop=True)


def by_airline(rows: pd.DataFrame) -> pd.DataFrame:
    """Return flights, cancelled ones, minutes of delay and miles per month and airline."""
    return rows.groupby(["month", "airline"], as_index=False).agg(
        flights=("cancelled", "size"),
        cancelled=("cancelled", "sum"),
        minutes=("dep_delay", "sum"),
        miles=("distance", "sum"),
    )
