"""What travels from the driver to Spark's workers: stages and functions, pickled by value where the workers cannot import them.

`chain.py` finds the stages of a flow or graph that run there; `parcel.py` packs them in the driver and opens them in a worker;
`entry.py` is the only code that a worker gets by value: it checks Python and streamactors there before it opens a parcel."""
