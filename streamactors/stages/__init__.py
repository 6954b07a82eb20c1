"""Every operator's stage, in rooms named after what the operators do; `streamactors/dsl` gives each its method.

sources/ emit, sinks/ consume. transform/ gives results element by element, fold/ combines several elements, limit/ passes a part of the
stream, rate/ decouples speeds, timing/ follows the clock, asynchronous/ calls functions outside the island, substreams/ runs sources
inside a stage, junctions/ joins and splits streams, errors/ handles failures, control/ ends or restarts parts of a running stream, watching/ observes
a stream without changing it, rx/ runs RxPY operators. bases/ has the base classes of their logics; checks.py checks arguments."""
