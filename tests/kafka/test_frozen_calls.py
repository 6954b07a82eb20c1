"""A call of librdkafka with a time limit, in a process that is frozen for longer than the limit."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

PROGRAM = """
import time
from streamactors.kafka.client import bounded_call
bounded_call.GRACE_S = 0.0

def call():
    print("called", flush=True)
    time.sleep(0.5)  # the process is frozen here
    time.sleep(0.5)
    return "taken"

print(bounded_call.bounded(call, 2.0, "a producer"), flush=True)
"""
FROZEN_S = 2.5


def test_a_call_that_ends_soon_after_its_process_was_frozen_is_in_time() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "called\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(FROZEN_S)
        process.send_signal(signal.SIGCONT)
        told, failed = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (told, failed) == ("taken\n", "")
