"""The names of other libraries and ours, for docs/operators/akka-names.md and docs/operators/other-names.md.

A row of Akka/Pekko says: here (the same name in snake_case), under another name, or only on the JVM. `python -m docs.generate` writes the
pages; tests/docs/test_names.py checks that no row is empty and that every name of ours exists."""

from __future__ import annotations

import re
from typing import Final

import streamactors
from docs.library_names import LIBRARIES
from streamactors import Flow, Sink, Source

AKKA: Final[dict[str, str]] = {
    "Source": """
        apply actorRef actorRefWithBackpressure asSourceWithContext asSubscriber combine completionStage completionStageSource cycle empty
        failed from fromArray fromCompletionStage fromFuture fromFutureSource fromIterator fromJavaStream fromMaterializer fromOption
        fromPublisher fromSourceCompletionStage future futureSource items iterate lazily lazilyAsync lazyCompletionStage
        lazyCompletionStageSource lazyFuture lazyFutureSource lazySingle lazySource maybe mergePrioritizedN never preMaterialize queue range
        repeat setup single tick unfold unfoldAsync unfoldResource unfoldResourceAsync zipN zipWithN materializeIntoSource
    """,
    "Sink": """
        actorRef actorRefWithBackpressure asPublisher cancelled collect collection combine completionStageSink contramap count
        eagerFutureSink exists fold foldWhile forall foreach foreachAsync foreachParallel fromMaterializer fromSubscriber futureSink head
        headOption ignore last lastOption lazyCompletionStageSink lazyFutureSink lazyInitAsync lazySink never none onComplete preMaterialize
        queue reduce seq setup source takeLast
    """,
    "StreamConverters": """
        asInputStream asJavaStream asOutputStream fromInputStream fromJavaStream fromOutputStream javaCollector
        javaCollectorParallelUnordered
    """,
    "FileIO": "fromFile fromPath toFile toPath",
    "Flow": """
        asFlowWithContext collect collectFirst collectType collectWhile completionStageFlow contramap detach dimap doOnCancel doOnFirst drop
        dropRepeated dropWhile filter filterNot flattenOptional fold foldAsync foldWhile fromMaterializer futureFlow grouped
        groupedAdjacentBy groupedAdjacentByWeighted groupedWeighted intersperse lazyCompletionStageFlow lazyFlow lazyFutureFlow
        lazyInitAsync limit limitWeighted log logWithMarker map mapConcat mapOption mapWithResource materializeIntoSource optionalVia
        preMaterialize reduce scan scanAsync setup sliding statefulMap statefulMapConcat take takeUntil takeWhile throttle
        fromSinkAndSource fromSinkAndSourceCoupled ask mapAsync mapAsyncPartitioned mapAsyncPartitionedUnordered mapAsyncUnordered delay
        delayWith dropWithin groupedWeightedWithin groupedWithin initialDelay takeWithin aggregateWithBoundary batch batchWeighted buffer
        conflate conflateWithSeed expand extrapolate flatMapConcat flatMapMerge flatMapPrefix flattenMerge flattenConcat groupBy
        prefixAndTail splitAfter splitWhen switchMap concatSubstreams mergeSubstreams mergeSubstreamsWithParallelism backpressureTimeout
        completionTimeout idleTimeout initialTimeout keepAlive concat concatAllLazy concatLazy interleave interleaveAll merge mergeAll
        mergeLatest mergePreferred mergePrioritized mergeSorted orElse prepend prependLazy zip zipAll zipLatest zipLatestWith zipWith
        zipWithIndex alsoTo alsoToAll divertTo wireTap monitor watch watchTermination mapError onErrorComplete onErrorContinue
        onErrorResume recover recoverWith recoverWithRetries async via viaMat to toMat runWith withAttributes named mapMaterializedValue
    """,
    "Junctions": """
        Balance Broadcast Concat Interleave Merge MergeHub BroadcastHub PartitionHub MergeLatest MergePreferred MergePrioritized
        MergeSequence MergeSorted OrElse Partition Unzip UnzipWith WireTap Zip ZipLatest ZipN ZipWith ZipWithN
    """,
    "ActorSource": "actorRef actorRefWithBackpressure",
    "ActorSink": "actorRef actorRefWithBackpressure",
    "ActorFlow": "ask askWithContext askWithStatus askWithStatusAndContext",
    "PubSub": "sink source",
    "Compression": "deflate gunzip gzip inflate",
    "Framing": "delimiter lengthField simpleFramingProtocol JsonFraming.objectScanner",
    "Tcp": "outgoingConnection bind outgoingConnectionWithTls bindWithTls",
    "RestartSource": "onFailuresWithBackoff withBackoff",
    "RestartFlow": "onFailuresWithBackoff withBackoff",
    "RestartSink": "onFailuresWithBackoff withBackoff",
    "RetryFlow": "withBackoff withBackoffAndContext",
    "KillSwitches": "single singleBidi shared",
    "FlowWithContext": """
        alsoTo alsoToAll alsoToContext asFlow ask askWithStatus collect divertTo filter filterNot grouped log logWithMarker map mapAsync
        mapAsyncPartitioned mapAsyncPartitionedUnordered mapAsyncUnordered mapConcat mapContext mapError mapMaterializedValue sliding throttle unsafeDataVia
        unsafeOptionalDataVia via viaMat wireTap wireTapContext withAttributes async fromTuples
    """,
    "Other": """
        CoupledTerminationFlow BidiFlow GraphDSL StreamRefs.sourceRef StreamRefs.sinkRef MaterializerState.streamSnapshots TestSource.probe
        TestSink.probe
    """,
}
"""The names of Pekko's operator index, of its 2.0 additions, and of what stands beside the index; by the class that has them."""

JVM: Final = {
    "Source.asSubscriber": "Reactive Streams' interface; RxPY: `Source.from_observable`",
    "Source.fromPublisher": "Reactive Streams' interface; RxPY: `Source.from_observable`",
    "Source.fromJavaStream": "a Java 8 Stream; iterables: `Source.from_iterable`",
    "Sink.asPublisher": "Reactive Streams' interface; RxPY: `Source.as_observable`",
    "Sink.fromSubscriber": "Reactive Streams' interface; RxPY: `Source.as_observable`",
    "Sink.collect": "a Java Collector; use `Sink.fold`",
    "StreamConverters.fromJavaStream": "a Java 8 Stream; iterables: `Source.from_iterable`",
    "StreamConverters.javaCollector": "a Java Collector; use `Sink.fold`",
    "StreamConverters.javaCollectorParallelUnordered": "a Java Collector; use `Flow.map_parallel` and `Sink.fold`",
}
"""What means something on the JVM only, and what serves instead."""

OTHER: Final = {
    "Source.apply": "`Source.from_iterable`",
    "Source.asSourceWithContext": "`Source.with_context`",
    "Source.completionStage": "`Source.future`",
    "Source.completionStageSource": "`Source.future_source`",
    "Source.from": "`Source.from_iterable`",
    "Source.fromArray": "`Source.from_iterable`",
    "Source.fromCompletionStage": "`Source.future`",
    "Source.fromFuture": "`Source.future`",
    "Source.fromFutureSource": "`Source.future_source`",
    "Source.fromIterator": "`Source.from_iterable`, of an object whose `__iter__` gives a new iterator for each run",
    "Source.fromOption": "`Source.from_iterable` of a list with one element or none",
    "Source.fromSourceCompletionStage": "`Source.future_source`",
    "Source.items": "`Source.from_iterable`",
    "Source.lazily": "`Source.lazy_source`",
    "Source.lazilyAsync": "`Source.lazy_future`",
    "Source.lazyCompletionStage": "`Source.lazy_future`",
    "Source.lazyCompletionStageSource": "`Source.lazy_future_source`",
    "Source.mergePrioritizedN": "`Source.merge_prioritized` with `priorities=`",
    "Source.setup": "`Source.from_materializer`",
    "Source.zipN": "`Source.zip`, or `Source.combine` with `strategy=ZipN`",
    "Source.zipWithN": "`Source.combine` with `strategy=lambda n: ZipWith(fn, n)`",
    "Sink.collection": "`Sink.to_list`, or `Sink.fold` into another collection",
    "Sink.completionStageSink": "`Sink.future_sink`",
    "Sink.eagerFutureSink": "`Sink.future_sink`, which starts the sink as soon as the future has it",
    "Sink.forall": "`Sink.for_all`",
    "Sink.foreachParallel": "`Sink.foreach_async`",
    "Sink.lazyCompletionStageSink": "`Sink.lazy_future_sink`",
    "Sink.lazyInitAsync": "`Sink.lazy_future_sink`",
    "Sink.queue": "`Sink.to_queue`",
    "Sink.seq": "`Sink.to_list`",
    "Sink.setup": "`Sink.from_materializer`",
    "StreamConverters.asInputStream": "`Sink.to_reader`",
    "StreamConverters.asJavaStream": "`Source.run_iter`",
    "StreamConverters.asOutputStream": "`Source.from_writer`",
    "StreamConverters.fromInputStream": "`Source.from_file_object`",
    "StreamConverters.fromOutputStream": "`Sink.to_file_object`",
    "FileIO.fromFile": "`Source.from_file`",
    "FileIO.fromPath": "`Source.from_file`",
    "FileIO.toFile": "`Sink.to_file`",
    "FileIO.toPath": "`Sink.to_file`",
    "Flow.asFlowWithContext": "`Flow.with_context`",
    "Flow.completionStageFlow": "`Flow.future_flow`",
    "Flow.lazyCompletionStageFlow": "`Flow.lazy_future_flow`",
    "Flow.lazyInitAsync": "`Flow.lazy_future_flow`",
    "Flow.logWithMarker": "`Flow.log` with `logger=`: Python's logging has filters and adapters for markers",
    "Flow.mapOption": "`Flow.collect`",
    "Flow.setup": "`Flow.from_materializer`",
    "Flow.concatSubstreams": "`SubFlow.concat_substreams`",
    "Flow.mergeSubstreams": "`SubFlow.merge_substreams`",
    "Flow.mergeSubstreamsWithParallelism": "`SubFlow.merge_substreams_with_parallelism`",
    "Flow.async": "`Flow.async_boundary`",
    "Flow.concatAllLazy": "`Flow.concat_lazy`",
    "Flow.interleaveAll": "`Flow.interleave`",
    "Flow.mergeAll": "`Flow.merge`",
    "Flow.alsoToAll": "`Flow.also_to`",
    "FlowWithContext.alsoToAll": "`FlowWithContext.also_to`",
    "Junctions.MergeLatest": "`Source.merge_latest`",
    "Junctions.MergePrioritized": "`Source.merge_prioritized`",
    "Junctions.MergeSequence": "`Source.merge_sequence`",
    "Junctions.MergeSorted": "`Source.merge_sorted`",
    "Junctions.ZipWithN": "`ZipWith`",
    "ActorSource.actorRef": "`Source.actor_ref`: there is one kind of actor",
    "ActorSource.actorRefWithBackpressure": "`Source.actor_ref_with_backpressure`",
    "ActorSink.actorRef": "`Sink.actor_ref`",
    "ActorSink.actorRefWithBackpressure": "`Sink.actor_ref_with_backpressure`",
    "ActorFlow.ask": "`Flow.ask`",
    "ActorFlow.askWithContext": "`FlowWithContext.ask`",
    "ActorFlow.askWithStatus": "`Flow.ask_with_status`",
    "ActorFlow.askWithStatusAndContext": "`FlowWithContext.ask_with_status`",
    "Compression.deflate": "`Flow.deflate`",
    "Compression.gunzip": "`Flow.gunzip`",
    "Compression.gzip": "`Flow.gzip`",
    "Compression.inflate": "`Flow.inflate`",
    "Framing.delimiter": "`Flow.frames_by_delimiter`",
    "Framing.lengthField": "`Flow.frames_by_length`",
    "Framing.simpleFramingProtocol": "`Flow.with_length_field` and `Flow.frames_by_length`",
    "Framing.JsonFraming.objectScanner": "`Flow.frames_of_json`",
    "FlowWithContext.logWithMarker": "`FlowWithContext.log` with `logger=`",
    "FlowWithContext.async": "`FlowWithContext.async_boundary`",
    "FlowWithContext.fromTuples": "`FlowWithContext.from_pairs`",
    "Tcp.outgoingConnectionWithTls": "`Tcp.outgoing_connection` with `tls=`",
    "Tcp.bindWithTls": "`Tcp.bind` with `tls=`",
    "Other.CoupledTerminationFlow": "`Flow.from_sink_and_source_coupled`",
    "Other.BidiFlow": "`BidiFlow`",
    "Other.GraphDSL": "`GraphDSL`",
    "Other.MaterializerState.streamSnapshots": "`snapshots`",
    "Other.TestSource.probe": "`streamactors.testing.TestSource.probe`",
    "Other.TestSink.probe": "`streamactors.testing.TestSink.probe`",
}
"""What has another name here."""


def snake(name: str) -> str:
    """Return a name of Akka as Python spells it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def ours(owner: str, name: str) -> tuple[str, str]:
    """Return ("here" | "other name" | "JVM only" | "", text) for a name of Akka."""
    full = f"{owner}.{name}"
    if name.startswith("StreamRefs") and not hasattr(streamactors, "StreamRefs"):
        return "not yet", "a topic of the broker between the two runs"
    if full in OTHER:
        return "other name", OTHER[full]
    if full in JVM:
        return "JVM only", JVM[full]
    if owner == "Junctions" and hasattr(streamactors, name):
        return "here", f"`{name}`"
    if name.startswith("StreamRefs"):
        return "here", f"`StreamRefs.{snake(name.removeprefix('StreamRefs.'))}`"
    classes = {"Source": (Source,), "Sink": (Sink,), "Flow": (Flow, Source)}.get(owner)
    if classes is None and hasattr(streamactors, owner):
        classes = (getattr(streamactors, owner),)
    for cls in classes or ():
        if hasattr(cls, snake(name)):
            return "here", f"`{cls.__name__}.{snake(name)}`"
    return "", ""


def akka_rows() -> list[tuple[str, str, str, str]]:
    """Return (class, name, how, text) of every name."""
    return [(owner, name, *ours(owner, name)) for owner, names in AKKA.items() for name in names.split()]


def akka_page() -> str:
    """Return the page of Akka's names."""
    rows = akka_rows()
    lines = [
        "# Akka Streams and Pekko Streams",
        "",
        f"The {len(rows)} names of Pekko's operator index, of its version 2.0 and of what stands beside the index, and ours.",
        "",
    ]
    for owner in AKKA:
        lines += [f"## {owner}", "", "| there | | here |", "|---|---|---|"]
        lines += [f"| {name} | {how} | {text} |" for of, name, how, text in rows if of == owner]
        lines.append("")
    return "\n".join(lines)


def library_rows(library: str) -> list[tuple[str, str]]:
    """Return (their name, our text) of a library."""
    rows = [re.split(r" = (?=`|[a-z])", line, maxsplit=1) for line in LIBRARIES[library].strip().splitlines()]
    return [(theirs.strip(), text.strip()) for theirs, text in rows]


def libraries_page() -> str:
    """Return the page of the Python libraries' names."""
    lines = [
        "# Rx, aiostream, streamz, Bytewax",
        "",
        "What the operators of other Python libraries are called here. `Flow.rx` runs RxPY operators as they are.",
        "",
    ]
    for library in LIBRARIES:
        lines += [f"## {library}", "", "| there | here |", "|---|---|"]
        lines += [f"| `{theirs}` | {text} |" for theirs, text in library_rows(library)]
        lines.append("")
    return "\n".join(lines)
