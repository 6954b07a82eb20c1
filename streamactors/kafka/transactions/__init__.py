"""The transaction of a run: one producer for all transactional sinks, and the cuts at which it commits.

What users call, `Transactional.source`, `sink` and `flow`, is in `kafka/round_trips/transactional.py`; it makes the stages of this package.

`transactional_stage.py` writes records and stops at marks; `run_transaction.py` asks every part to stop at one mark, adds the positions and
commits (the moves: `engine/marks/cut_state.py`). `offsets.py` says which offsets a commit adds, `other_sinks.py` waits for the run's sinks that are
not transactional. `writes.py` keeps the open transaction's records for the case of a rebalance; `ordered_cuts.py` refuses graphs whose parts
cannot stop at one position.

A row on its way to a commit: `TransactionalSinkLogic` produces it and keeps it in `writes`; the commit interval makes `RunTransaction` ask for a
cut; each part holds its inlet at its next mark and reports it (`_on_cut`, `on_reached`); when the other sinks have done that mark
(`progress.when_done`), the positions are added and the transaction commits (`_commit`); then the marks pass and the parts continue."""
