"""What the page's server answers. `streamactors/http` reads the requests; `routes.py` answers them, `access.py` says who may ask, `feed.py` gives every open
page the newest state, `lookups.py`, `records.py` and `letters.py` have more questions, and `forwarding.py` passes them on to other processes."""
