"""Members of each kind of group beside the workload, by single requests: what each saw is judged by `group_history.check_groups`.

`all_kinds.py` starts them. `owner.py`: consumer groups and streams groups. `sharer.py`: share groups. `transactor.py`: transactions of version 2.
All of them ask through `wires.py`."""
