"""Readers: one per subject, each of which returns its part of the State of `streamactors/dashboard/model.py`. `graphs.py` reads the runs by
`doing.py` and `folding.py`; the others read what consumers, windows, stores, brokers and Spark queries keep anyway."""
