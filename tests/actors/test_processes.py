"""The default system and the process: exit, Ctrl-C, fork. Each in a process of its own, because it is about its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from streamactors.actors.system import ActorSystem
from tests.actors.actor_classes import Echo

PRELUDE = """
import os, sys, threading, time
from streamactors.actors.system import ActorSystem
from streamactors.actors.messages import Actor

class Echo(Actor):
    def receiveMessage(self, message, sender):
        if message == "block":
            time.sleep(60)
        elif isinstance(message, (str, int)):
            self.send(sender, message)

def works(system):
    return system.ask(system.spawn(Echo), 1).result(10) == 1
"""


def run(code: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", PRELUDE + code],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


# the default system of this process may still have streams of earlier tests, whose brokers are gone
@pytest.mark.expects_log("these do not return and keep their threads")
def test_the_default_system_is_one_and_comes_back_after_a_shutdown() -> None:
    first = ActorSystem.default()
    assert ActorSystem.default() is first
    first.shutdown()
    second = ActorSystem.default()
    assert second is not first
    assert second.ask(second.spawn(Echo), 1).result(10) == 1
    second.shutdown()


@pytest.mark.parametrize(
    "work",
    [
        "",
        "system.timers.call_later(3_600_000, print)",
        "system.spawn(Echo).tell('block'); time.sleep(0.1)",
        "system.create_actor(Echo, dispatcher='own')",
    ],
    ids=["at rest", "with a timer", "with a blocked actor", "with a dispatcher of its own"],
)
def test_a_process_ends_without_a_word_although_nobody_shut_the_default_system_down(work: str) -> None:
    done = run(f"system = ActorSystem.default(); assert works(system); {work}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_system_nobody_shut_down_does_not_keep_the_process_alive() -> None:
    done = run("system = ActorSystem('forgotten'); assert works(system)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_control_c_ends_the_process_with_the_usual_trace_and_nothing_else() -> None:
    code = """
system = ActorSystem.default()
assert works(system)
system.spawn(Echo).tell("block")
print("ready", flush=True)
from streamactors.actors.futures import StreamFuture
StreamFuture().result()
"""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-X", "dev", "-c", PRELUDE + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_after_fork_the_child_has_a_default_system_of_its_own_and_the_parents_refuse_clearly() -> None:
    done = run(
        """
import warnings; warnings.simplefilter("ignore")  # 3.12 warns of every fork in a process with threads
default, mine = ActorSystem.default(), ActorSystem("mine")
assert works(default) and works(mine)
own = mine.spawn(Echo, dispatcher="own")
assert mine.ask(own, 1).result(10) == 1
handles = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
pid = os.fork()
if pid == 0:
    assert not default.running and not mine.running
    if handles:
        assert len(os.listdir("/proc/self/fd")) < handles, "the child keeps no descriptor of the parent's loops"
    fresh = ActorSystem.default()
    assert fresh is not default and works(fresh)
    with ActorSystem("another") as another:
        assert works(another)
    cell = mine.pool.spawn(print, "c")
    for use in (lambda: mine.spawn(Echo), lambda: mine.timers.call_later(1, print), lambda: cell.tell(1)):
        try:
            use()
        except Exception as error:
            assert "forked" in str(error), error
        else:
            raise AssertionError("a system of the parent's was used in the child")
    own.tell("nothing runs here: a dead letter, not a hang")
    mine.shutdown(); default.shutdown()
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert works(default) and works(mine)
mine.shutdown()
print("done")
"""
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_multiprocessing_worker_gets_its_own_default_system() -> None:
    done = run(
        """
import warnings; warnings.simplefilter("ignore")
import multiprocessing

def job(number):
    system = ActorSystem.default()
    return system.ask(system.spawn(Echo), number).result(10), os.getpid()

assert works(ActorSystem.default())
with multiprocessing.get_context("fork").Pool(2) as pool:
    results = pool.map(job, range(6))
assert [number for number, _ in results] == list(range(6))
assert os.getpid() not in {pid for _, pid in results}
assert works(ActorSystem.default())
print("done")
"""
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
