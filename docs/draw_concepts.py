"""Draw the pictures of the concept pages and of the architecture: `python -m docs.draw_concepts` (needs matplotlib)."""

from __future__ import annotations

from itertools import pairwise

from docs.drawing import DATA, DEMAND, INK, MARK, Drawing


def demand() -> None:
    """Elements one way, demand the other, down to the partition."""
    d = Drawing(20, 6.2)
    stages = [
        (0.2, "topic\npartition"),
        (4.4, "consumer\nactor"),
        (8.6, "source\nstage"),
        (12.8, "map"),
        (17.0, "slow sink"),
    ]
    for x, name in stages:
        d.box(x, 2.4, 2.6, 1.5, name)
    for (x, _), (after, _) in pairwise(stages):
        d.arrow((x + 2.6, 3.55), (after, 3.55), color=DATA)
        d.arrow((after, 2.75), (x + 2.6, 2.75), color=DEMAND)
    d.text(15.9, 4.35, "elements, in chunks", color=DATA, fontsize=9)
    d.chunk(14.7, 4.7, ["7", "8", "9"])
    d.text(16.2, 1.95, "“500 more”", color=DEMAND, fontsize=9)
    d.text(12.0, 1.95, "“500 more”", color=DEMAND, fontsize=9)
    d.text(7.8, 1.95, "“500 more”", color=DEMAND, fontsize=9)
    d.text(3.6, 1.95, "pause, resume", color=DEMAND, fontsize=9)
    d.chunk(4.5, 4.3, ["", "", "", "", ""])
    d.text(5.95, 5.25, "buffer: full for a while → pause", fontsize=9)
    d.text(
        10,
        0.8,
        "Nobody sends what was not asked for. The sink's pace is the partition's pace, and memory stays where it is.",
        fontsize=10,
    )
    d.save("concept-demand")


def islands() -> None:
    """Plain calls inside, messages between."""
    d = Drawing(22.4, 5.4)
    d.frame(0.3, 1.5, 8.6, 3.0, "island 0: one actor", INK)
    d.frame(13.5, 1.5, 8.6, 3.0, "island 1: another actor, at the same time", INK)
    for x, name in ((0.8, "source"), (3.7, "map"), (6.6, "filter"), (14.0, "map"), (16.9, "rx"), (19.8, "sink")):
        d.box(x, 1.9, 1.9, 1.3, name)
    for x in (2.7, 5.6, 15.9, 18.8):
        d.arrow((x, 2.55), (x + 1.0, 2.55), color=DATA)
    d.text(4.6, 3.85, "a chunk moves by plain calls; map and filter are one loop", fontsize=9)
    d.arrow((8.5, 2.8), (14.0, 2.8), "a message per chunk", DATA, dy=0.35)
    d.arrow((14.0, 2.3), (8.5, 2.3), "credits: “so many more”", DEMAND, dy=-0.35)
    d.text(17.8, 3.85, "blocks in a call? its thread waits, no other island does", fontsize=9)
    d.text(
        11.2, 0.6, "source.map(f).filter(g)  .async_boundary()  .map(h).rx(…).to(sink)", family="monospace", fontsize=10
    )
    d.save("concept-islands")


def marks() -> None:
    """What is done travels behind the data."""
    d = Drawing(22, 6.4)
    for x, w, name in (
        (0.2, 2.6, "Consumer\n.source"),
        (6.4, 2.6, "map_async(8)"),
        (12.6, 2.2, "filter"),
        (18.9, 2.8, "sink"),
    ):
        d.box(x, 2.9, w, 1.6, name)
    for start, end in ((2.8, 6.4), (9.0, 12.6), (14.8, 18.9)):
        d.arrow((start, 3.7), (end, 3.7), color=INK)
    for x, mark, elements in ((3.3, "5", ["r4", "r3"]), (9.4, "3", ["r2", "r1", "r0"]), (15.7, "3", ["r2", "r0"])):
        d.box(x, 4.1, 0.58, 0.58, mark, facecolor=MARK, edgecolor="white", color="white", fontsize=8)
        d.chunk(x + 0.7, 4.1, elements)
    d.text(10.8, 5.2, "mark 3 comes out behind all\nthat came of r0, r1, r2", fontsize=9, color=MARK)
    d.text(16.7, 5.2, "r1 was dropped on purpose:\nthe mark goes on", fontsize=9)
    d.arrow((20.3, 2.8), (1.5, 2.8), "", DEMAND, bend=-0.09)
    d.text(
        10.9,
        1.35,
        "“before 3 everything is done”: stored, acknowledged, committed → offset 3 is committed",
        color=DEMAND,
        fontsize=9.5,
    )
    d.text(
        11,
        0.4,
        "A mark says: all that stems from this partition before this position has passed here, or was dropped on purpose.",
        fontsize=10,
    )
    d.save("concept-marks")


def materialization() -> None:
    """A blueprint, run twice."""
    d = Drawing(20, 6.8)
    d.frame(0.3, 2.0, 7.4, 3.2, "a graph: a immutable blueprint")
    for x, name in ((0.7, "source"), (3.2, "map"), (5.6, "sink")):
        d.box(x, 2.9, 1.8, 1.3, name)
    d.arrow((2.5, 3.55), (3.2, 3.55))
    d.arrow((5.0, 3.55), (5.6, 3.55))
    for y, title in ((3.75, "one run"), (0.75, "another, with state of its own")):
        d.frame(10.6, y, 5.4, 1.9, title, DATA)
        for x, name in ((10.9, "source"), (12.7, "map"), (14.5, "sink")):
            d.box(x, y + 0.45, 1.3, 1.0, name, fontsize=9)
        d.arrow((12.2, y + 0.95), (12.7, y + 0.95), color=DATA)
        d.arrow((14.0, y + 0.95), (14.5, y + 0.95), color=DATA)
        d.arrow((16.0, y + 0.95), (17.3, y + 0.95), "", DEMAND)
        d.text(18.2, y + 0.95, "control,\nfuture", color=DEMAND, fontsize=9)
    d.arrow((7.7, 4.2), (10.6, 4.7), ".run()", bend=-0.1, dy=0.55)
    d.arrow((7.7, 2.9), (10.6, 1.7), ".run()", bend=0.1, dy=0.45)
    d.save("concept-materialization")


def architecture() -> None:
    """Where a record goes, and where demand comes back."""
    d = Drawing(24, 10.4)
    d.frame(0.3, 5.4, 8.0, 4.1, "broker: one process, actors on a dispatcher", INK)
    d.box(0.7, 7.7, 2.1, 1.2, "acceptor", fontsize=9)
    d.box(3.3, 7.7, 2.1, 1.2, "processor:\nframes, FIFO", fontsize=9)
    d.box(5.9, 7.7, 2.1, 1.2, "handler\nof the API", fontsize=9)
    d.box(0.7, 5.8, 2.1, 1.2, "groups,\ntransactions", fontsize=9)
    d.box(3.3, 5.8, 2.1, 1.2, "purgatory", fontsize=9)
    d.box(5.9, 5.8, 2.1, 1.2, "log: segments\non disk", fontsize=8.5)
    d.arrow((2.8, 8.3), (3.3, 8.3), color=DATA)
    d.arrow((5.4, 8.3), (5.9, 8.3), color=DATA)
    d.arrow((6.95, 7.7), (6.95, 7.0), color=DATA)
    d.arrow((6.2, 7.7), (4.4, 7.0), color=INK)
    d.frame(12.2, 5.4, 11.5, 4.1, "your process: stream graphs, islands on a pool of threads", INK)
    d.box(12.6, 6.7, 2.3, 1.5, "consumer\nactor", fontsize=9)
    d.box(15.9, 6.7, 2.0, 1.5, "source", fontsize=9)
    d.box(18.5, 6.7, 2.1, 1.5, "maps, rx,\nwindows …", fontsize=9)
    d.box(21.2, 6.7, 2.1, 1.5, "sink", fontsize=9)
    d.arrow((8.3, 7.8), (12.6, 7.8), "Fetch", DATA)
    d.arrow((12.6, 7.1), (8.3, 7.1), "pause, resume,\ncommit", DEMAND, dy=-0.55)
    for x, end in ((14.9, 15.9), (17.9, 18.5), (20.6, 21.2)):
        d.arrow((x, 7.8), (end, 7.8), color=DATA)
        d.arrow((end, 7.1), (x, 7.1), color=DEMAND)
    d.text(17.9, 8.8, "elements in chunks, marks behind them →", color=DATA, fontsize=9)
    d.text(17.9, 6.05, "← demand, and what is done", color=DEMAND, fontsize=9)
    d.frame(12.2, 0.6, 11.5, 2.9, "Spark: driver's JVM and Python workers", INK)
    d.box(20.2, 1.2, 3.1, 1.5, "reader:\nlatestOffset, read", fontsize=9)
    d.box(16.3, 1.2, 2.7, 1.5, "foreachBatch", fontsize=9)
    d.box(12.6, 1.2, 2.6, 1.5, "checkpoint,\nParquet", fontsize=9)
    d.arrow((20.2, 1.95), (19.0, 1.95), color=DATA)
    d.arrow((16.3, 1.95), (15.2, 1.95), color=DATA)
    d.arrow((21.7, 6.7), (21.7, 2.7), "", DATA)
    d.arrow((22.8, 2.7), (22.8, 6.7), "", DEMAND)
    d.text(21.5, 4.5, "Arrow over a\nloopback socket", color=DATA, fontsize=9, ha="right")
    d.text(23.0, 4.5, "“next batch”,\n“the last is safe”", color=DEMAND, fontsize=9, ha="left")
    d.box(
        0.7,
        1.2,
        7.2,
        2.2,
        "any other Kafka client:\nlibrdkafka, Java, kafka-python,\naiokafka, Spark, Kafka Streams",
        fontsize=9,
    )
    d.arrow((4.3, 3.4), (4.3, 5.4), "", DATA)
    d.save("architecture")


if __name__ == "__main__":
    for draw in (demand, islands, marks, materialization, architecture):
        draw()
