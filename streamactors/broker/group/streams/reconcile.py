"""The next step of one member towards its target assignment.

Owner: the state machine of streams groups. Pure. A member gives back tasks before it gets the next epoch, and waits for tasks that other processes
still have. Source: KIP-1071; Apache Kafka's CurrentAssignmentBuilder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.streams.streams_group import MemberState, StreamsGroup, StreamsMember
from streamactors.broker.group.streams.tasks import OwnedTasks, Tasks, TaskSet, each_task, overlap

_MutableTasks = dict[str, set[int]]


def reconcile(
    group: StreamsGroup, member: StreamsMember, target_epoch: int, target: Tasks, owned: Tasks | None
) -> StreamsMember:
    """Return the member after one step. `owned` is what it says that it has, None if it says nothing.

    Raises Refusal FENCED_MEMBER_EPOCH for a member in a state of a newer version that has not given everything back."""
    step = _Step(group, member, target_epoch, target, owned)
    match member.state:
        case MemberState.STABLE:
            return member if member.epoch == target_epoch else step.next(member.epoch)
        case MemberState.UNREVOKED_TASKS:
            return member if step.has_not_released(member.revoking) else step.next(member.epoch + 1)
        case MemberState.UNRELEASED_TASKS:
            return step.next(member.epoch)
        case MemberState.UNKNOWN:
            if owned is None or not owned.is_empty:
                raise Refusal(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
                )
            return step.next(target_epoch)


class _Difference:
    """What becomes of the tasks of one role. `unreleased`: some of the new ones are held elsewhere."""

    def __init__(self, current: TaskSet, target: TaskSet, is_unreleased: Callable[[str, int], bool]) -> None:
        self.kept: _MutableTasks = {}
        self.revoking: _MutableTasks = {}
        self.pending: _MutableTasks = {}
        self.unreleased = False
        for name in dict.fromkeys((*target, *current)):
            have, want = current.get(name, frozenset()), target.get(name, frozenset())
            held = {each for each in want - have if is_unreleased(name, each)}
            self.unreleased |= bool(held)
            for into, tasks in (
                (self.kept, have & want),
                (self.revoking, have - want),
                (self.pending, want - have - held),
            ):
                if tasks:
                    into[name] = set(tasks)

    def grant(self, name: str, partition: int) -> bool:
        """Give a pending task at once. Return False if it is not pending."""
        if partition not in self.pending.get(name, ()):
            return False
        _discard(self.pending, name, partition)
        self.kept.setdefault(name, set()).add(partition)
        return True


class _Step:
    def __init__(
        self, group: StreamsGroup, member: StreamsMember, target_epoch: int, target: Tasks, owned: Tasks | None
    ) -> None:
        self._group = group
        self._member = member
        self._epoch = target_epoch
        self._target = target
        self._owned = owned
        self._has = member.assigned.tasks

    def has_not_released(self, revoking: OwnedTasks) -> bool:
        """Whether the member still has tasks that it must give back; without a word from it, it has."""
        return self._owned is None or overlap(self._owned, revoking)

    def next(self, epoch: int) -> StreamsMember:
        """Return the member on its way from `epoch` to the target."""
        has, target = self._has, self._target
        active = _Difference(has.active, target.active, self._active_is_held)
        standby = _Difference(has.standby, target.standby, self._standby_is_held)
        warmup = _Difference(has.warmup, target.warmup, self._warmup_is_held)
        for name, partition in each_task(has.active):  # a running task becomes a standby of the same member
            standby.grant(name, partition)
        for name, partition in each_task(has.standby):
            if warmup.grant(name, partition):
                _discard(standby.revoking, name, partition)
        for name, partition in each_task(has.warmup):
            if standby.grant(name, partition):
                _discard(warmup.revoking, name, partition)
        for tasks, difference in ((has.standby, standby), (has.warmup, warmup)):
            for name, partition in each_task(tasks):  # it becomes active: nothing is given back
                if partition in target.active.get(name, frozenset()):
                    _discard(difference.revoking, name, partition)
        revoking = OwnedTasks(self._with_epochs(active.revoking), _frozen(standby.revoking), _frozen(warmup.revoking))
        must_revoke = not revoking.is_empty and self.has_not_released(revoking)
        for tasks, difference in ((has.standby, standby), (has.warmup, warmup)):
            for name, partition in each_task(tasks):  # it stays what it is until it is active
                granted = not must_revoke and partition in active.pending.get(name, ())
                if partition in target.active.get(name, frozenset()) and not granted:
                    difference.kept.setdefault(name, set()).add(partition)
        kept = OwnedTasks(self._with_epochs(active.kept), _frozen(standby.kept), _frozen(warmup.kept))
        if must_revoke:
            return replace(
                self._member, state=MemberState.UNREVOKED_TASKS, epoch=epoch, previous_epoch=self._member.epoch,
                assigned=kept, revoking=revoking,
            )  # fmt: skip
        pending = OwnedTasks(
            {name: dict.fromkeys(sorted(each), self._epoch) for name, each in active.pending.items()},
            _frozen(standby.pending),
            _frozen(warmup.pending),
        )
        waits = active.unreleased or standby.unreleased or warmup.unreleased
        return replace(
            self._member,
            state=MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE,
            epoch=self._epoch,
            previous_epoch=self._member.epoch,
            assigned=kept if pending.is_empty else kept.merged(pending),
            revoking=OwnedTasks(),
        )

    def _with_epochs(self, tasks: _MutableTasks) -> dict[str, dict[int, int]]:
        epochs = self._member.assigned.active
        return {
            name: {partition: epochs[name][partition] for partition in sorted(each)} for name, each in tasks.items()
        }

    # -- held elsewhere ---------------------------------------------------------------------------------------------

    def _active_is_held(self, name: str, partition: int) -> bool:
        return (
            (name, partition) in self._group.active_processes
            or self._held_in_process(self._group.standby_processes, self._has.standby, name, partition)
            or self._held_in_process(self._group.warmup_processes, self._has.warmup, name, partition)
        )

    def _standby_is_held(self, name: str, partition: int) -> bool:
        runs_here = self._group.active_processes.get((name, partition)) == self._member.process_id
        return (
            (runs_here and partition not in self._has.active.get(name, frozenset()))
            or self._member.process_id in self._group.standby_processes.get((name, partition), ())
            or self._held_in_process(self._group.warmup_processes, self._has.warmup, name, partition)
        )

    def _warmup_is_held(self, name: str, partition: int) -> bool:
        return (
            self._group.active_processes.get((name, partition)) == self._member.process_id
            or self._held_in_process(self._group.standby_processes, self._has.standby, name, partition)
            or self._member.process_id in self._group.warmup_processes.get((name, partition), ())
        )

    def _held_in_process(
        self, processes: Mapping[tuple[str, int], frozenset[str]], own: TaskSet, name: str, partition: int
    ) -> bool:
        """Whether another member of this process has the task: a process has one directory for a task."""
        here = self._member.process_id in processes.get((name, partition), ())
        return here and partition not in own.get(name, frozenset())


def _discard(tasks: _MutableTasks, name: str, partition: int) -> None:
    found = tasks.get(name)
    if found is not None:
        found.discard(partition)
        if not found:
            del tasks[name]


def _frozen(tasks: _MutableTasks) -> TaskSet:
    return {name: frozenset(each) for name, each in tasks.items()}
