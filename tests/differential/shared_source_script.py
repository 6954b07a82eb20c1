"""A member of a share group in a process of its own, to be killed: prints a line for each record that it holds, and never finishes one."""

from __future__ import annotations

import sys
import threading

from streamactors import Sink
from streamactors.kafka import Consumer, SharedSourceSettings


def main(servers: str, group: str, topic: str) -> None:
    def hold(record):
        print(record.offset, flush=True)
        threading.Event().wait()

    settings = SharedSourceSettings(servers, group, max_in_flight=5)
    Consumer.shared_source(settings, topic).run_with(Sink.foreach(hold)).result()


if __name__ == "__main__":
    main(*sys.argv[1:])
