"""The consumer actor of a source: it polls one consumer, keeps a buffer per partition, and delivers to feeds what they have asked for.

`sources` starts a ConsumerActor and sends it messages (`messages.py`); the actor delivers into a `Feed` and posts the rest to the source
(`consumer_context.py`: ReadingSource). `consumer_actor.py` lists its parts. `pausing.py` is the rule of pause and resume. Sinks and committers report
what is done to the `OffsetTracker`; `commits.py` commits it. Only `client` is below."""
