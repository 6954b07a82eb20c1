"""RxPY: pipelines as stages, observables as sources, streams as observables. The only package that imports reactivex.

pipeline.py         operators as one stage, with demand in results
from_observable.py  an observable as a source, through a bounded buffer
to_observer.py      a stream as an observable
scheduler.py        time operators on the engine's timers
feed.py             the source of a pipeline
overflow.py         what happens when results wait beyond a bound
handling.py         which operators let marks pass"""
