"""Random histories of a streams group: joins, leaves, silence, lost answers, topics that come, coordinators that fail over."""

from __future__ import annotations

from random import Random

import pytest

from streamactors.broker.group.streams.streams_events import StreamsRules
from streamactors.broker.group.streams.streams_group import StreamsGroupState
from tests.broker.group.streams.simulated_streams import App, World, check, owners, pick, settle

SEEDS_EACH = 50


def history(seed: int) -> None:
    random = Random(seed)
    standbys = random.choice([0, 0, 1, 2])
    world = World(StreamsRules(standby_replicas=standbys, initial_rebalance_delay_ms=random.choice([0, 3_000])))
    if random.random() < 0.5:
        del world.topics["r"], world.topics["log"]  # the group has them created
    processes = [f"p{n}" for n in range(random.randint(1, 4))]
    apps = [App(world, f"m{n}", random.choice(processes), f"i{n}" if random.random() < 0.3 else None) for n in range(5)]
    for step in range(60):
        app, chance = pick(random, apps), random.random()
        if chance < 0.75:
            app.beat(works=random.random() < 0.7, lost=random.random() < 0.1)
        elif chance < 0.82:
            app.leave(-2 if app.instance_id and random.random() < 0.5 else -1)
            if random.random() < 0.5:
                app.member_id = f"{app.member_id}-{step}"
        elif chance < 0.95:
            world.pass_time(random.choice([10, 1_000, 4_000, 20_000]))
        elif chance < 0.98:
            world.fail_over(random.choice([0, 3_600_000, -3_600_000]))
        else:
            world.topics["in"] += 1
            world.topics = {"in": world.topics["in"]}  # the application was reset: its internal topics are gone
        check(world)
    settle(world, apps)
    group = world.group
    assert group.state is StreamsGroupState.STABLE, (seed, group)
    tasks = {("0", n) for n in range(world.topics["in"])} | {("1", n) for n in range(world.topics["r"])}
    assert owners(world, "active") == dict.fromkeys(tasks, 1), seed
    stateful = {each for each in tasks if each[0] == "1"}
    wanted = min(standbys, len({member.process_id for member in group.members.values()}) - 1)
    assert owners(world, "standby") == (dict.fromkeys(stateful, wanted) if wanted else {}), seed


@pytest.mark.parametrize("part", range(6))
def test_every_history_ends_with_each_task_in_one_member(part: int) -> None:
    for seed in range(part * SEEDS_EACH, (part + 1) * SEEDS_EACH):
        history(seed)


@pytest.mark.slow
def test_two_thousand_more_histories() -> None:
    for seed in range(10_000, 12_000):
        history(seed)
