"""Progress: which positions are done at every sink, which sinks are behind a mark, and which calls follow when none is or one has failed."""

from __future__ import annotations

import random

import pytest

from streamactors.engine.marks.marks import Position, PositionMark
from streamactors.engine.marks.progress import SinkProgress

SOURCE = frozenset(("s",))


def at(position: int, partition: int = 0) -> PositionMark:
    return {("s", partition): (1, position)}


def everybody(_: object) -> bool:
    return True


def test_a_wait_for_what_is_done_already_is_answered_at_once() -> None:
    progress, answers = SinkProgress(), []
    progress.add_sink("a", SOURCE)
    progress.done("a", at(5))
    progress.when_done(at(5), lambda: answers.append("done"), everybody)
    assert answers == ["done"]


def test_a_wait_is_answered_once_by_the_report_of_the_last_sink_that_was_behind() -> None:
    progress, answers = SinkProgress(), []
    for sink in "abc":
        progress.add_sink(sink, SOURCE)
    progress.when_done(at(5), lambda: answers.append("done"), everybody)
    for sink in "bca":
        assert not answers
        progress.done(sink, at(4))
    for sink in "cab":
        assert not answers
        progress.done(sink, at(6))
    assert answers == ["done"]
    progress.done("a", at(7))
    assert answers == ["done"]


def test_a_sink_that_is_not_asked_about_holds_up_no_wait() -> None:
    progress, answers = SinkProgress(), []
    progress.add_sink("mine", SOURCE)
    progress.add_sink("other", SOURCE)
    progress.when_done(at(1), lambda: answers.append("done"), lambda sink: sink != "mine")
    assert not progress.is_behind(at(1), lambda sink: sink not in ("mine", "other"))
    assert progress.is_behind(at(1), lambda sink: sink != "mine")
    progress.done("other", at(1))
    assert answers == ["done"]


@pytest.mark.parametrize("leave", [SinkProgress.sink_ended, SinkProgress.forget])
def test_a_sink_that_is_gone_holds_up_no_wait(leave) -> None:
    progress, answers = SinkProgress(), []
    progress.add_sink("a", SOURCE)
    progress.when_done(at(1), lambda: answers.append("done"), everybody)
    leave(progress, "a")
    assert answers == ["done"]


def test_a_sink_whose_sources_lie_elsewhere_holds_up_no_wait() -> None:
    progress = SinkProgress()
    progress.add_sink("a", frozenset(("t",)))
    assert not progress.is_behind(at(1), everybody)


def test_a_sink_that_only_one_partition_reaches_is_not_waited_for_on_account_of_another() -> None:
    progress = SinkProgress()
    progress.add_sink("a", SOURCE, 0)
    progress.done("a", at(3))
    assert not progress.is_behind(at(3) | at(9, partition=1), everybody)
    assert progress.is_behind(at(4), everybody)


def test_an_answer_may_ask_again() -> None:
    """The caller of `then` holds no lock: what is called may wait for the next mark at once."""
    progress, answers = SinkProgress(), []
    progress.add_sink("a", SOURCE)

    def first() -> None:
        answers.append(1)
        progress.when_done(at(2), lambda: answers.append(2), everybody)

    progress.when_done(at(1), first, everybody)
    progress.done("a", at(1))
    assert answers == [1]
    progress.done("a", at(2))
    assert answers == [1, 2]


def test_the_source_hears_the_last_report_of_the_last_sink_when_it_ends() -> None:
    progress, heard = SinkProgress(), []
    progress.listen("s", heard.append)
    progress.add_sink("a", SOURCE)
    progress.add_sink("b", SOURCE)
    progress.done("a", at(7))
    progress.sink_ended("a")
    progress.sink_ended("b")
    assert heard == []
    progress.add_sink("c", SOURCE)
    progress.done("c", at(3))
    progress.sink_ended("c")
    assert heard == [at(3)]


@pytest.mark.parametrize("seed", range(200))
def test_progress_answers_as_a_model_that_looks_at_all_sinks(seed: int) -> None:
    """The model asks every sink at every question; waits are answered exactly when it says so."""
    rng = random.Random(seed)
    progress, done, partition_of = SinkProgress(), {}, {}
    heard: PositionMark = {}
    waits: list[tuple[PositionMark, list[str], frozenset[str]]] = []
    failed: set[str] = set()
    progress.listen("s", heard.update)
    for sink in "abcd"[: rng.randint(1, 4)]:
        partition_of[sink] = rng.choice((None, None, 0, 1))
        done[sink] = {}
        progress.add_sink(sink, SOURCE, partition_of[sink])

    def behind(target: PositionMark, among: frozenset[str] | set[str]) -> bool:
        return any(
            done[sink].get(key, (0, -1)) < place
            for sink in done.keys() & among
            for key, place in target.items()
            if partition_of[sink] in (None, key[1])
        )

    for _ in range(60):
        mark: dict[tuple[str, int], Position] = {}
        for partition in rng.sample((0, 1), rng.randint(1, 2)):
            mark |= at(rng.randint(0, 20), partition)
        choice = rng.random()
        if choice < 0.3:
            among, answers = frozenset(rng.sample("abcd", rng.randint(0, 4))), []
            waits.append((mark, answers, among))
            progress.when_done(
                mark,
                lambda answers=answers: answers.append("done"),
                among.__contains__,
                lambda error, answers=answers: answers.append("failed"),
            )
        elif choice < 0.9 and done.keys() - failed:
            sink = rng.choice(sorted(done.keys() - failed))
            known = done[sink]
            known |= {key: max(place, known.get(key, place)) for key, place in mark.items()}
            progress.done(sink, mark)
        elif choice < 0.95 and done:
            sink = rng.choice(sorted(done))
            failed.add(sink)
            progress.sink_failed(sink, ValueError(sink))
        elif done.keys() - failed:
            sink = rng.choice(sorted(done.keys() - failed))
            del done[sink]
            rng.choice((progress.sink_ended, progress.forget))(sink)
        for target, answers, among in waits:
            now_behind = behind(target, among)
            assert progress.is_behind(target, among.__contains__) == now_behind
            if answers == ["failed"]:
                assert behind(target, among & failed)
            else:
                assert answers == ([] if now_behind else ["done"])
                assert not behind(target, among & failed), "a wait hears of a sink that will never be done"
        for key, place in heard.items():
            carriers = [sink for sink in done if partition_of[sink] in (None, key[1])]
            assert all(done[sink].get(key, (0, -1)) >= place for sink in carriers)
