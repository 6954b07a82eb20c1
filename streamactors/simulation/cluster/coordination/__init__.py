"""The coordinators of a simulated cluster: the broker's own GroupShard, TransactionShard and CoordinatorActor over logs in memory.

`groups.py` has the coordinators of groups, `transactions.py` those of transactional ids; both are `Coordinators` (`coordinators.py`), one for each
partition of an internal topic (`internal_log.py`)."""
