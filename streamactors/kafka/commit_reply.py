"""CommitReply: the future of a commit that may be tried a number of times only."""

from __future__ import annotations

from streamactors.actors.futures import StreamFuture


class CommitReply(StreamFuture[None]):
    """Ends when the broker has what is to be committed; fails with CommitTimeout after `max_retries` tries in vain (None: only when
    `commit_timeout_ms` is over), with CommitFailed for what will not get better."""

    def __init__(self, max_retries: int | None = None) -> None:
        super().__init__("commit")
        self.max_retries = max_retries
