"""The `sticky` assignor: tasks stay where they are, and every process gets a share that fits its number of members.

Owner: the state machine of streams groups. Pure. The order of Apache Kafka's StickyTaskAssignor is kept, also that of its hash tables and
priority queues, so that another broker that becomes the coordinator does not move tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from streamactors.broker.group.assignors.hash_order import HashOrdered, text_hash, text_order
from streamactors.broker.group.streams.tasks import NO_TASKS, OwnedTasks, Tasks

T = TypeVar("T")
TaskId = tuple[str, int]


class AssignedMember(NamedTuple):
    """What the assignor knows of a member. `offsets` are the sums that it reported, by subtopology and partition."""

    process_id: str
    owned: OwnedTasks = OwnedTasks()
    offsets: Mapping[str, Mapping[int, int]] = {}


class Part(NamedTuple):
    """A subtopology."""

    tasks: int
    stateful: bool


NAME: Final = "sticky"


def assign(members: Mapping[str, AssignedMember], parts: Mapping[str, Part], standbys: int) -> dict[str, Tasks]:
    """Return the tasks of each member. `members` are in the order of Apache Kafka's table, `parts` by id in their order."""
    if not members:
        return {}
    state = _State(members, parts, standbys)
    state.assign_active([(name, index) for name, part in parts.items() for index in range(part.tasks)])
    if standbys > 0:
        state.assign_standby([(n, i) for n, part in parts.items() if part.stateful for i in range(part.tasks)])
    return {member_id: state.tasks_of(member_id) for member_id in members}


class _Queue(Generic[T]):
    """Java's PriorityQueue: equal elements come in the same order as there."""

    def __init__(self, key: Callable[[T], float]) -> None:
        self._key = key
        self._heap: list[T] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, item: T) -> None:
        """Add an element, and move it up."""
        heap, at = self._heap, len(self._heap)
        heap.append(item)
        while at:
            parent = (at - 1) >> 1
            if self._key(item) >= self._key(heap[parent]):
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = item

    def poll(self) -> T | None:
        """Remove the least element, and move the last one down from its place."""
        heap = self._heap
        if not heap:
            return None
        first, last = heap[0], heap.pop()
        if heap:
            at, half, size = 0, len(heap) >> 1, len(heap)
            while at < half:
                child = 2 * at + 1
                if child + 1 < size and self._key(heap[child]) > self._key(heap[child + 1]):
                    child += 1
                if self._key(last) <= self._key(heap[child]):
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = last
        return first


class _Counted:
    """A member with the number of its tasks when it was queued."""

    __slots__ = ("count", "member_id")

    def __init__(self, member_id: str, count: int) -> None:
        self.member_id = member_id
        self.count = count


class _Process:
    """An instance of the application with its members."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.tasks: set[TaskId] = set()
        self.active: dict[str, set[TaskId]] = {}
        self.standby: dict[str, set[TaskId]] = {}
        self._order: HashOrdered[str] = HashOrdered(text_hash)
        self._total = 0
        self._queue: _Queue[_Counted] | None = None

    @property
    def load(self) -> float:
        """Tasks for each member."""
        return self._total / len(self.counts)

    def add_member(self, member_id: str) -> None:
        """A member of this instance."""
        self.counts[member_id] = 0
        self._order.add(member_id)

    def add(self, member_id: str, task: TaskId, *, active: bool) -> int:
        """Give a task to a member; return the number of its tasks."""
        self._queue = None
        return self._add(member_id, task, active=active)

    def add_to_least_loaded(self, task: TaskId, *, active: bool) -> int:
        """Give a task to the member with the fewest; return the number of its tasks."""
        if len(self.counts) == 1:
            return self._add(next(iter(self.counts)), task, active=active)
        if self._queue is None:
            self._queue = _Queue(lambda each: each.count)
            for member_id in self._order:
                self._queue.add(_Counted(member_id, self.counts[member_id]))
        least = self._queue.poll()
        assert least is not None
        least.count = self._add(least.member_id, task, active=active)
        self._queue.add(least)
        return least.count

    def _add(self, member_id: str, task: TaskId, *, active: bool) -> int:
        self._total += 1
        self.tasks.add(task)
        (self.active if active else self.standby).setdefault(member_id, set()).add(task)
        self.counts[member_id] += 1
        return self.counts[member_id]


class _Share:
    """How many tasks a member may keep: those that are left, by the members with room."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = _ceil(tasks, members)

    def took(self, count: int) -> None:
        """A member has `count` tasks now; one that is full no longer counts."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self.per_member = _ceil(self._tasks, self._members)


def _ceil(tasks: int, members: int) -> int:
    if members == 0:
        return 0
    quotient = int(tasks / members)  # towards zero, as in Java
    return quotient + (tasks - quotient * members > 0)


class _State:
    def __init__(self, members: Mapping[str, AssignedMember], parts: Mapping[str, Part], standbys: int) -> None:
        active = sum(part.tasks for part in parts.values())
        total = active + standbys * sum(part.tasks for part in parts.values() if part.stateful)
        self._standbys = standbys
        self._active_share = _Share(active, len(members))
        self._share = _Share(total, len(members))
        self._members = members
        self._processes: dict[str, _Process] = {}
        self._order: HashOrdered[str] = HashOrdered(text_hash, capacity=len(members))
        self._had_active: dict[TaskId, str] = {}
        candidates: dict[TaskId, list[tuple[int, int, str]]] = {}
        for member_id, member in members.items():
            self._process(member_id).add_member(member_id)
            for name, partitions in member.owned.active.items():
                for partition in partitions:
                    self._had_active[name, partition] = member_id
            for task, candidate in _standby_candidates(member_id, member):
                candidates.setdefault(task, []).append(candidate)
        self._had_standby = {
            task: [member_id for _, _, member_id in sorted(each, key=lambda c: c[:2])]
            for task, each in candidates.items()
        }

    def _process(self, member_id: str) -> _Process:
        process_id = self._members[member_id].process_id
        found = self._processes.get(process_id)
        if found is None:
            found = self._processes[process_id] = _Process()
            self._order.add(process_id)
        return found

    def tasks_of(self, member_id: str) -> Tasks:
        """Return the assignment of a member."""
        process = self._process(member_id)
        active, standby = process.active.get(member_id, ()), process.standby.get(member_id, ())
        return Tasks(_by_part(active), _by_part(standby)) if active or standby else NO_TASKS

    # -- active tasks -----------------------------------------------------------------------------------------------

    def assign_active(self, tasks: list[TaskId]) -> None:
        """Give each active task to the member that had it, to one that had its standby, or to the least loaded process."""
        tasks.sort(key=lambda task: (task[1], text_order(task[0])))
        left = [task for task in tasks if not self._return_active(task, self._had_active.get(task))]
        left = [
            task for task in left if not self._return_active(task, self._least_loaded(self._had_standby.get(task, ())))
        ]
        queue = self._by_load()
        for task in sorted(left, key=lambda task: (text_order(task[0]), task[1])):
            process = queue.poll()
            assert process is not None
            self._took(process.add_to_least_loaded(task, active=True))
            queue.add(process)

    def _return_active(self, task: TaskId, member_id: str | None) -> bool:
        if member_id is None:
            return False
        process = self._process(member_id)
        if process.counts[member_id] >= self._active_share.per_member:
            return False
        self._took(process.add(member_id, task, active=True))
        return True

    def _took(self, count: int) -> None:
        self._active_share.took(count)
        self._share.took(count)

    # -- standby tasks ----------------------------------------------------------------------------------------------

    def assign_standby(self, tasks: list[TaskId]) -> None:
        """Give the standby tasks of each task to those who had it, then to the least loaded processes that do not have it."""
        tasks.sort(key=lambda task: (task[1], text_order(task[0])), reverse=True)
        left = [(task, self._standbys - self._return_standbys(task)) for task in tasks]
        left.sort(key=lambda each: (text_order(each[0][0]), each[0][1]), reverse=True)
        queue = self._by_load()
        for task, missing in left:
            for _ in range(missing):
                if not self._give_standby(queue, task):
                    break  # there are fewer processes than replicas

    def _return_standbys(self, task: TaskId) -> int:
        """Return how many members that had the task keep it as a standby."""
        for given in range(self._standbys):
            had_active = self._had_active.get(task)
            if had_active is not None and self._return_standby(had_active, task):
                continue
            member_id = self._least_loaded(self._had_standby.get(task, ()), without=task)
            if member_id is None or not self._return_standby(member_id, task):
                return given
        return self._standbys

    def _return_standby(self, member_id: str, task: TaskId) -> bool:
        process = self._process(member_id)
        if task in process.tasks or process.counts[member_id] >= self._share.per_member:
            return False
        self._share.took(process.add(member_id, task, active=False))
        return True

    def _give_standby(self, queue: _Queue[_Process], task: TaskId) -> bool:
        passed: list[_Process] = []
        process = queue.poll()
        while process is not None and task in process.tasks and queue:
            passed.append(process)
            process = queue.poll()
        found = process is not None and task not in process.tasks
        if process is not None:
            if found:
                self._share.took(process.add_to_least_loaded(task, active=False))
            passed.append(process)
        for each in reversed(passed):
            queue.add(each)
        return found

    # -- loads ------------------------------------------------------------------------------------------------------

    def _by_load(self) -> _Queue[_Process]:
        queue: _Queue[_Process] = _Queue(lambda process: process.load)
        for process_id in self._order:
            queue.add(self._processes[process_id])
        return queue

    def _least_loaded(self, member_ids: Iterable[str], without: TaskId | None = None) -> str | None:
        """Return the member whose process and who itself have the least tasks; a later one must have less of both."""
        best, least = None, (0.0, 0.0)
        for member_id in member_ids:
            process = self._process(member_id)
            if without is not None and without in process.tasks:
                continue
            load = (process.load, float(process.counts[member_id]))
            if best is None or (load[0] < least[0] and load[1] < least[1]):
                best, least = member_id, load
        return best


def _standby_candidates(member_id: str, member: AssignedMember) -> Iterable[tuple[TaskId, tuple[int, int, str]]]:
    """Yield the tasks whose state the member has, with its rank: standby tasks first, then the highest offsets."""
    for name, partitions in member.owned.standby.items():
        for partition in partitions:
            yield (name, partition), (0, -member.offsets.get(name, {}).get(partition, 0), member_id)
    for name, offsets in member.offsets.items():
        for partition, offset in offsets.items():
            if partition not in member.owned.standby.get(name, frozenset()):
                yield (name, partition), (1, -offset, member_id)


def _by_part(tasks: Iterable[TaskId]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for name, partition in tasks:
        found.setdefault(name, set()).add(partition)
    return {name: frozenset(each) for name, each in found.items()}
