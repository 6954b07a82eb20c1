"""What goes wrong in a simulated run, and when.

`faults.py` is what a test says: a rate, times or moments for each fault, in the words of `when.py`. `plan.py` is the faults of one run: it asks
`chances.py` for each opportunity and calls `in_time.py` (brokers and instances), `requests.py` (between clients and brokers), `calls.py` (stores
outside) and `records.py` (what is sent). `deployment.py` is what faults may do to instances."""
