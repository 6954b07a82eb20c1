"""Three pictures of a run: delays by hour, alerts beside the weather, and partitions that wait for Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamactors.demo import flights_to_spark
from streamactors.demo.checking.tables import Tables
from streamactors.demo.data import weather_frame
from streamactors.demo.flight import ORIGINS
from streamactors.demo.folder import Folder

if TYPE_CHECKING:
    import pandas as pd

NEW_YORK: Final = "America/New_York"
CAUSES: Final = {"delays": "#e08a1e", "cancellations": "#b3261e"}
INK: Final = "#333333"
_STYLE: Final[dict[str, Any]] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.dpi": 110,
}


def draw_pictures(tables: Tables, folder: Folder) -> list[Path]:
    """Draw the pictures for which there is data; return the files."""
    import matplotlib as mpl

    mpl.use("Agg")
    drawn = []
    with mpl.rc_context(_STYLE):
        figures = {
            "delays": delays(tables.hours),
            "alerts": alerts(tables),
            "pauses": pauses(folder.samples / f"{flights_to_spark.NAME}.jsonl"),
        }
        for name, figure in figures.items():
            if figure is not None:
                path = folder.pictures / f"{name}.png"
                figure.savefig(path, bbox_inches="tight", facecolor="white")
                drawn.append(path)
    return drawn


def delays(hours: pd.DataFrame) -> Any:
    """Mean delay by month and hour of the day, for each origin."""
    import pandas as pd
    from matplotlib.figure import Figure

    local = pd.to_datetime(hours["hour_ms"], unit="ms", utc=True).dt.tz_convert(NEW_YORK)
    left = hours["flights"] - hours["cancelled"]
    by = hours.assign(month=local.dt.month, hour=local.dt.hour, left=left, minutes=hours["mean_delay"].fillna(0) * left)
    by = by.groupby(["origin", "month", "hour"])[["minutes", "left"]].sum()
    mean = (by["minutes"] / by["left"]).where(by["left"] > 0)
    figure = Figure(figsize=(12, 3.9), layout="constrained")
    all_axes = figure.subplots(1, len(ORIGINS), sharey=True)
    for axes, origin in zip(all_axes, ORIGINS, strict=True):
        grid = mean[origin].unstack("hour").reindex(index=range(1, 13), columns=range(5, 24))
        image = axes.imshow(grid, aspect="auto", cmap="magma_r", vmin=0, vmax=45, extent=(4.5, 23.5, 12.5, 0.5))
        axes.set_title(origin)
        axes.set_xlabel("scheduled hour, New York")
        axes.set_xticks(range(6, 24, 3))
        axes.set_yticks(
            range(1, 13), ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        )
        axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=all_axes, label="mean delay, minutes", extend="max", pad=0.01)
    figure.suptitle("Departure delays, New York 2013", x=0.01, ha="left", weight="bold")
    return figure


def alerts(tables: Tables) -> Any:
    """The alerts of the year, over the weather of the day."""
    import matplotlib.dates as mdates
    import pandas as pd
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(12, 5.2), layout="constrained")
    lanes, wind, rain = figure.subplots(3, 1, sharex=True, height_ratios=(3, 1.3, 1.3))
    for lane, origin in enumerate(ORIGINS):
        turns = tables.alerts[tables.alerts["origin"] == origin]
        ends = turns["hour_ms"].shift(-1, fill_value=int(tables.hours["hour_ms"].max()))
        for cause, color in CAUSES.items():
            on = turns["cause"] == cause
            days = pd.to_datetime(turns["hour_ms"][on], unit="ms")
            lengths = (ends[on] - turns["hour_ms"][on]) / 86_400_000
            # an hour of a year is thinner than a pixel: give each at least a third of a day
            spans = list(zip(mdates.date2num(days), lengths.clip(lower=0.35), strict=True))
            lanes.broken_barh(spans, (lane - 0.35, 0.7), color=color, linewidth=0)
    lanes.set_yticks(range(len(ORIGINS)), ORIGINS)
    lanes.invert_yaxis()
    lanes.set_title("Alerts")
    lanes.legend(
        [Patch(color=color) for color in CAUSES.values()],
        ["mean delay of an hour ≥ 60 min", "a quarter of an hour's flights cancelled"],
        ncols=2,
        frameon=False,
        loc="lower right",
        bbox_to_anchor=(1, 1),
    )
    weather = weather_frame()
    day = pd.to_datetime(weather["hour_ms"], unit="ms").dt.floor("D")
    wind.fill_between(
        *_daily(weather["wind_speed"].clip(upper=60), day, "max"), color="#5b84b1", step="mid", linewidth=0
    )
    wind.set_ylabel("wind\nmph, max")
    hourly_mean = weather.groupby("hour_ms")["precip"].mean()
    days = pd.to_datetime(hourly_mean.index, unit="ms").floor("D")
    rain.fill_between(
        *_daily(hourly_mean.reset_index(drop=True), days, "sum"), color="#2f6f6b", step="mid", linewidth=0
    )
    rain.set_ylabel("rain, snow\ninches a day")
    rain.xaxis.set_major_locator(mdates.MonthLocator())
    rain.xaxis.set_major_formatter(mdates.DateFormatter("%b"))
    rain.set_xlim(pd.Timestamp("2013-01-01"), pd.Timestamp("2014-01-01"))
    for axes in (wind, rain):
        axes.set_ylim(bottom=0)
    return figure


def _daily(values: pd.Series[float], day: Any, how: str) -> tuple[Any, Any]:
    daily = values.groupby(day).agg(how)
    return daily.index, daily.to_numpy()


def pauses(samples: Path) -> Any:
    """Buffers and pauses of each partition while Spark worked, the rows with Spark, and its demand; None without samples."""
    import numpy as np
    from matplotlib.figure import Figure

    if not samples.exists():
        return None
    looks = [json.loads(line) for line in samples.read_text().splitlines() if line.endswith("}")]
    if not looks:
        return None
    seconds = [look["at"] - looks[0]["at"] for look in looks]
    names = sorted({name for look in looks for name in look["partitions"]})
    figure = Figure(figsize=(12, 1.3 * (len(names) + 2) + 0.6), layout="constrained")
    *lanes, spark, demand = figure.subplots(len(names) + 2, 1, sharex=True)
    for axes, name, origin in zip(lanes, names, ORIGINS, strict=False):
        of = [look["partitions"].get(name, {}) for look in looks]
        filled = [each.get("buffered_bytes", 0) / 1024 for each in of]
        top = max(*filled, 1) * 1.15
        paused = [bool(each.get("paused")) for each in of]
        axes.fill_between(seconds, 0, top, where=paused, color="#b3261e", alpha=0.2, linewidth=0, step="post")
        axes.fill_between(seconds, 0, filled, color="#5b84b1", linewidth=0, step="post")
        axes.set_ylim(0, top)
        axes.set_ylabel(f"{origin}\nbuffer, KiB")
    given, gathered, asked = (
        np.array([look.get(name, 0) / 1_000 for look in looks]) for name in ("at_spark", "gathered", "asked")
    )
    spark.fill_between(seconds, 0, given, color="#8a6d3b", step="post", linewidth=0, label="being written")
    spark.fill_between(
        seconds, given, given + gathered, color="#d9c39a", step="post", linewidth=0, label="for the next batch"
    )
    spark.set_ylabel("at Spark\n1,000 rows")
    spark.legend(loc="upper left", ncols=2, frameon=False, fontsize=8, bbox_to_anchor=(0, 1.22), borderpad=0)
    demand.fill_between(seconds, 0, asked, color="#2f6f6b", step="post", linewidth=0)
    demand.set_ylabel("demand\n1,000 rows")
    for axes in (spark, demand):
        axes.set_ylim(bottom=0)
    demand.set_xlabel("seconds")
    demand.set_xlim(0, max(seconds[-1], 0.1))
    figure.align_ylabels()
    paused_times = max(look["pauses"] for look in looks)
    lanes[0].set_title(f"While Spark writes, partitions wait: {paused_times} pauses (red)")
    return figure
