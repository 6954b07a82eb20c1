"""The requests that a simulated cluster serves, one function each: `api(cluster, request, reply)`.

`reply(error, answer)` is called once, at once or later. `data.py` has records and offsets, `groups.py` and `transactions.py` what coordinators
serve, `admin.py` what administrators ask. The name of a function is the name of its API in the trace, for the weather, and in `cluster.refuses`."""
