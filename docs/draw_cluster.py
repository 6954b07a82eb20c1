"""Draw the picture of the page about clusters: `python -m docs.draw_cluster` (needs matplotlib)."""

from __future__ import annotations

from docs.drawing import DATA, DEMAND, INK, MARK, Drawing


def life() -> None:
    """The life of a partition: who leads it, and what changes that."""
    d = Drawing(23, 9.6)
    d.box(0.3, 4.6, 3.2, 1.5, "created:\nall live replicas\nare in sync", fontsize=9)
    d.box(8.2, 4.4, 4.4, 1.9, "led\nby a member of the ISR", facecolor=DATA, color="white")
    d.box(18.6, 4.4, 4.0, 1.9, "offline\nno leader", facecolor=MARK, color="white")
    d.box(18.6, 0.6, 4.0, 1.6, "recovering\nISR: the new leader", fontsize=9, facecolor=DEMAND, color="white")
    d.box(8.2, 0.6, 4.4, 1.6, "moving\nreplicas are added", fontsize=9)
    d.arrow((3.5, 5.35), (8.2, 5.35), "a leader is elected")
    d.arrow((12.6, 5.7), (18.6, 5.7), "the last member is fenced", MARK)
    d.arrow((18.6, 5.0), (12.6, 5.0), "that member is back", DATA, dy=-0.4)
    d.arrow((20.6, 4.4), (20.6, 2.2), color=DEMAND)
    d.text(18.6, 3.4, "unclean election,\nif the topic allows it", fontsize=9, color=DEMAND)
    d.arrow((18.6, 1.6), (12.6, 4.6), color=DATA)
    d.text(15.2, 1.6, "the ISR is confirmed", fontsize=9, color=DATA)
    d.arrow((9.4, 4.4), (9.4, 2.2), color=INK)
    d.arrow((10.8, 2.2), (10.8, 4.4), color=INK)
    d.text(6.5, 3.3, "AlterPartition-\nReassignments", fontsize=9)
    d.text(12.5, 2.75, "the added ones\nare in sync", fontsize=9)
    d.text(10.4, 8.9, "leader fenced or leaving: another member leads, leader epoch + 1", fontsize=9)
    d.text(10.4, 8.1, "follower lags: it leaves the ISR; caught up: it joins it. Partition epoch + 1", fontsize=9)
    d.arrow((9.2, 6.3), (11.6, 6.3), bend=-0.9)
    d.save("cluster-partition")


if __name__ == "__main__":
    life()
