"""The sticky assignor: balance, stickiness, standbys. Its results beside Apache Kafka's: tests/differential/test_streams_groups.py."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.group.streams.sticky import AssignedMember, Part, assign
from streamactors.broker.group.streams.tasks import OwnedTasks, Tasks, each_task

PARTS = st.dictionaries(
    st.sampled_from(["0", "1", "2", "10"]), st.builds(Part, st.integers(1, 9), st.booleans()), min_size=1
).map(lambda found: dict(sorted(found.items())))
PROCESSES = st.lists(st.integers(0, 4), min_size=1, max_size=8)


def newcomers(processes: list[int]) -> dict[str, AssignedMember]:
    return {f"m{n}": AssignedMember(f"p{process}") for n, process in enumerate(processes)}


def having(members: dict[str, AssignedMember], tasks: dict[str, Tasks]) -> dict[str, AssignedMember]:
    """Return the members with what was assigned to them."""
    return {
        name: member._replace(
            owned=OwnedTasks({n: dict.fromkeys(each, 1) for n, each in tasks[name].active.items()}, tasks[name].standby)
        )
        for name, member in members.items()
    }


@given(PARTS, PROCESSES, st.integers(0, 3))
def test_every_task_is_active_once_and_has_its_standbys_in_other_processes(
    parts: dict[str, Part], processes: list[int], standbys: int
) -> None:
    members = newcomers(processes)
    made = assign(members, parts, standbys)
    active = [task for tasks in made.values() for task in each_task(tasks.active)]
    assert sorted(active) == sorted((name, n) for name, part in parts.items() for n in range(part.tasks))
    copies = Counter(task for tasks in made.values() for task in each_task(tasks.standby))
    room = min(standbys, len(set(processes)) - 1)
    stateful = [(name, n) for name, part in parts.items() if part.stateful for n in range(part.tasks)]
    assert copies == Counter({task: room for task in stateful if room})
    for process in set(processes):
        of_process = [name for name, member in members.items() if member.process_id == f"p{process}"]
        held = Counter(t for name in of_process for kind in made[name][:2] for t in each_task(kind))
        assert all(count == 1 for count in held.values()), "a process has a task twice"


@given(PARTS, PROCESSES, st.integers(0, 2))
def test_nothing_moves_when_nothing_has_changed(parts: dict[str, Part], processes: list[int], standbys: int) -> None:
    members = newcomers(processes)
    made = assign(members, parts, standbys)
    again = assign(having(members, made), parts, standbys)
    assert {name: tasks.active for name, tasks in again.items()} == {name: tasks.active for name, tasks in made.items()}


def test_a_leaving_member_s_tasks_go_to_their_standbys() -> None:
    members, parts = newcomers([0, 1, 2]), {"0": Part(3, stateful=True)}
    made = assign(members, parts, 1)
    has = having(members, made)
    gone = "m0"
    after = assign({name: each for name, each in has.items() if name != gone}, parts, 1)
    for task in each_task(made[gone].active):
        (heir,) = [name for name, tasks in made.items() if task in set(each_task(tasks.standby))]
        assert task in set(each_task(after[heir].active))


def test_the_state_that_a_member_reports_decides_between_newcomers() -> None:
    parts = {"0": Part(2, stateful=True)}
    members = {
        "m0": AssignedMember("p0", OwnedTasks(), {"0": {1: 500}}),
        "m1": AssignedMember("p1", OwnedTasks(), {"0": {0: 700, 1: 20}}),
    }
    made = assign(members, parts, 0)
    assert (made["m0"].active, made["m1"].active) == ({"0": frozenset({1})}, {"0": frozenset({0})})
