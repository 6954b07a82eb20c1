"""Transactions: handlers call `Transactions`, which passes each request to the coordinator of the transactional id.

The coordinator's `TransactionShard` steps the pure machine in `transaction_state.py`, writes the result to
`__transaction_state`, and has `Markers` deliver the decision to every partition. `transaction_record.py` is the format."""
