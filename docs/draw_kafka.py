"""Draw the pictures of the page about Kafka: `python -m docs.draw_kafka` (needs matplotlib)."""

from __future__ import annotations

from docs.drawing import DATA, DEMAND, INK, MARK, Drawing


def states() -> None:
    """What the consumer does with one partition."""
    d = Drawing(21, 8.4)
    d.box(0.3, 4.2, 3.0, 1.4, "not assigned")
    d.box(5.6, 4.2, 3.0, 1.4, "withheld:\nwhere to begin?", fontsize=9)
    d.box(10.6, 4.2, 3.2, 1.4, "fetching", facecolor=DATA, color="white")
    d.box(17.4, 4.2, 3.2, 1.4, "paused", facecolor=DEMAND, color="white")
    d.arrow((3.3, 4.9), (5.6, 4.9), "assigned,", dy=0.65)
    d.text(4.45, 5.22, "manual offsets", fontsize=9)
    d.arrow((8.6, 4.9), (10.6, 4.9), "looked up", dy=0.32)
    d.arrow((1.8, 5.6), (12.2, 5.6), bend=-0.28)
    d.text(7.0, 7.45, "assigned: a new epoch, an empty buffer, nothing paused", fontsize=9)
    d.arrow((13.8, 5.2), (17.4, 5.2), "more than high_bytes", DEMAND, dy=0.65)
    d.text(15.6, 5.52, "for pause_dwell_ms", fontsize=9, color=DEMAND)
    d.arrow((17.4, 4.6), (13.8, 4.6), "less than low_bytes", DATA, dy=-0.35)
    d.arrow((12.2, 4.2), (2.2, 4.2), color=MARK, bend=-0.22)
    d.arrow((19.0, 4.2), (1.4, 4.2), color=MARK, bend=-0.24)
    d.text(
        10.2,
        1.5,
        "revoked: nothing more is delivered, what is in flight has revoke_timeout_ms, then it is committed",
        fontsize=9,
        color=MARK,
    )
    d.text(
        10.2,
        0.6,
        "lost: nothing is committed, another member reads it again.  Your own pause is kept apart from all this, over rebalances, too.",
        fontsize=9,
        color=INK,
    )
    d.save("kafka-partition-states")


def partitioned() -> None:
    """One consumer, a feed and a sub-source per partition."""
    d = Drawing(21, 6.6)
    d.box(0.3, 2.5, 3.0, 1.6, "consumer\nactor")
    for i, y in enumerate((4.6, 2.7, 0.8)):
        d.box(5.6, y, 3.2, 1.1, f"feed of orders-{i}", fontsize=9)
        d.box(10.8, y, 3.4, 1.1, f"source of orders-{i}", facecolor=DATA, color="white", fontsize=9)
        d.arrow((3.3, 3.3), (5.6, y + 0.55), color=DATA)
        d.arrow((8.8, y + 0.7), (10.8, y + 0.7), color=DATA)
        d.arrow((10.8, y + 0.35), (8.8, y + 0.35), color=DEMAND)
        d.arrow((14.2, y + 0.55), (17.0, 3.3), color=DATA)
    d.box(17.0, 2.5, 3.4, 1.6, "flat_map_merge")
    d.text(9.8, 6.2, "demand of its own pauses and resumes each partition by itself", fontsize=9, color=DEMAND)
    d.text(
        10.4,
        0.2,
        "take(10) on a source cancels it; what it has not taken waits in the feed for the next: no gap",
        fontsize=9,
    )
    d.save("kafka-partitioned")


def main() -> None:
    """Draw them all."""
    states()
    partitioned()


if __name__ == "__main__":
    main()
