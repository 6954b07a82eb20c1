import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Runs a processor with four stores through TopologyTestDriver. The values of the rows are what the processor does, and each answer is
 * forwarded; tests/models/processor_case.py has the same words. OP schedule clock every limit: set in init. ROW with the topic "clock":
 * advances the wall clock by the timestamp.
 */
public final class Processors {
    private final List<String[]> ops = new ArrayList<>();

    public static void main(final String[] args) throws Exception {
        final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        List<String[]> lines = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            final String[] fields = line.split("\t", -1);
            if (fields[0].equals("END")) {
                try {
                    new Processors().run(lines, out);
                } catch (final RuntimeException error) {
                    out.println("REFUSED\t" + error + " " + error.getCause());
                }
                out.println("END");
                out.flush();
                lines = new ArrayList<>();
            } else {
                lines.add(fields);
            }
        }
    }

    private void run(final List<String[]> lines, final PrintStream out) throws Exception {
        final File state = Files.createTempDirectory(Path.of(Topologies.STATES), "processors").toFile();
        for (final String[] line : lines) if (line[0].equals("OP")) ops.add(line);
        try (TopologyTestDriver driver = new TopologyTestDriver(build().build(), Topologies.config(state), Instant.ofEpochMilli(0))) {
            final TestOutputTopic<String, String> output =
                driver.createOutputTopic("output", new StringDeserializer(), new StringDeserializer());
            final Map<String, TestInputTopic<String, String>> inputs = new HashMap<>();
            int row = 0;
            for (final String[] line : lines) {
                if (!line[0].equals("ROW")) continue;
                final long time = Long.parseLong(line[4]);
                if (line[1].equals("clock")) {
                    driver.advanceWallClockTime(Duration.ofMillis(time));
                } else {
                    inputs.computeIfAbsent(line[1], topic -> driver.createInputTopic(topic, new StringSerializer(), new StringSerializer()))
                        .pipeInput(Topologies.nullable(line[2]), Topologies.nullable(line[3]), time);
                }
                while (!output.isEmpty()) {
                    final TestRecord<String, String> record = output.readRecord();
                    out.println("OUT\t" + row + "\t" + Topologies.orNull(record.key()) + "\t" + Topologies.orNull(record.value()) + "\t" + record.timestamp());
                }
                row++;
            }
            double dropped = 0;
            for (final Map.Entry<MetricName, ? extends Metric> metric : driver.metrics().entrySet()) {
                if (metric.getKey().name().equals("dropped-records-total")) dropped += (Double) metric.getValue().metricValue();
            }
            out.println("DROPPED\t" + (long) dropped);
        } finally {
            Topologies.delete(state);
        }
    }

    private StreamsBuilder build() {
        final StreamsBuilder builder = new StreamsBuilder();
        final Duration retention = Duration.ofMillis(30);
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("kv"), Serdes.String(), Serdes.String()));
        builder.addStateStore(Stores.windowStoreBuilder(
            Stores.inMemoryWindowStore("window", retention, Duration.ofMillis(1), false), Serdes.String(), Serdes.String()));
        builder.addStateStore(Stores.windowStoreBuilder(
            Stores.inMemoryWindowStore("doubles", retention, Duration.ofMillis(1), true), Serdes.String(), Serdes.String()));
        builder.addStateStore(Stores.sessionStoreBuilder(
            Stores.inMemorySessionStore("session", retention), Serdes.String(), Serdes.String()));
        builder.addStateStore(Stores.versionedKeyValueStoreBuilder(
            Stores.persistentVersionedKeyValueStore("versions", retention), Serdes.String(), Serdes.String()));
        final KStream<String, String> rows = builder.stream("a");
        final KStream<String, String> others = builder.<String, String>stream("b").filter((key, value) -> value != null && value.startsWith("put"));
        final KStream<String, String> given = rows.merge(others)
            .process(Script::new, "kv", "window", "doubles", "session", "versions");
        given.mapValues(value -> "L:" + value, Named.as("left")).to("output");
        given.mapValues(value -> "R:" + value, Named.as("right")).to("output");
        return builder;
    }

    private final class Script implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;
        private KeyValueStore<String, String> kv;
        private SessionStore<String, String> sessions;
        private VersionedKeyValueStore<String, String> versions;
        private final List<Cancellable> scheduled = new ArrayList<>();

        @Override
        public void init(final ProcessorContext<String, String> context) {
            this.context = context;
            kv = context.getStateStore("kv");
            sessions = context.getStateStore("session");
            versions = context.getStateStore("versions");
            for (final String[] op : ops) schedule(op[2], Long.parseLong(op[3]), Integer.parseInt(op[4]));
        }

        private void schedule(final String clock, final long every, final int limit) {
            final int at = scheduled.size();
            final int[] calls = {0};
            scheduled.add(context.schedule(Duration.ofMillis(every),
                clock.equals("wall") ? PunctuationType.WALL_CLOCK_TIME : PunctuationType.STREAM_TIME, now -> {
                    calls[0]++;
                    kv.put("p" + at, "n" + calls[0]);
                    context.forward(new Record<>("p" + at, "p" + at + " " + calls[0] + " " + context.currentStreamTimeMs() + " " + kv.get("a"), now));
                    if (calls[0] == limit) scheduled.get(at).cancel();
                }));
        }

        @Override
        public void process(final Record<String, String> row) {
            final String answer = row.value() == null ? "none" : act(row.value().split(" "));
            final Record<String, String> result = row.withValue(answer + " " + context.currentStreamTimeMs() + " " + context.currentSystemTimeMs());
            if ("x".equals(row.key())) context.forward(result, "left");
            else if ("y".equals(row.key())) context.forward(result.withKey(answer).withTimestamp(7), "right");
            else context.forward(result);
        }

        private String act(final String[] w) {
            switch (w[0]) {
                case "put": kv.put(w[1], word(w[2])); return "ok";
                case "get": return kv.get(w[1]);
                case "absent": return kv.putIfAbsent(w[1], word(w[2]));
                case "delete": return kv.delete(w[1]);
                case "range": return list(kv.range(word(w[1]), word(w[2])), key -> key);
                case "backwards": return list(kv.reverseRange(word(w[1]), word(w[2])), key -> key);
                case "prefix": return list(kv.prefixScan(w[1], Serdes.String().serializer()), key -> key);
                case "all": return list(kv.all(), key -> key);
                case "wput": windows(w[1]).put(w[2], word(w[3]), Long.parseLong(w[4])); return "ok";
                case "wget": return windows(w[1]).fetch(w[2], Long.parseLong(w[3]));
                case "wrange": return list(windows(w[1]).fetch(w[2], Long.parseLong(w[3]), Long.parseLong(w[4])), time -> time);
                case "wback": return list(windows(w[1]).backwardFetch(w[2], Long.parseLong(w[3]), Long.parseLong(w[4])), time -> time);
                case "sput": sessions.put(session(w), word(w[4])); return "ok";
                case "sremove": sessions.remove(session(w)); return "ok";
                case "sget": return sessions.fetchSession(w[1], Long.parseLong(w[2]), Long.parseLong(w[3]));
                case "sfind": return list(byEndAndStart(sessions.findSessions(w[1], Long.parseLong(w[2]), Long.parseLong(w[3]))),
                    key -> key.window().start() + "-" + key.window().end());
                case "vput": return valid(versions.put(w[1], word(w[2]), Long.parseLong(w[3])));
                case "vget": return version(versions.get(w[1]));
                case "vas": return version(versions.get(w[1], Long.parseLong(w[2])));
                case "vdelete": return version(versions.delete(w[1], Long.parseLong(w[2])));
                case "schedule": schedule(w[1], Long.parseLong(w[2]), Integer.parseInt(w[3])); return "ok";
                case "cancel":
                    if (Integer.parseInt(w[1]) < scheduled.size()) scheduled.get(Integer.parseInt(w[1])).cancel();
                    return "ok";
                default: throw new IllegalArgumentException(w[0]);
            }
        }

        private WindowStore<String, String> windows(final String name) {
            return context.getStateStore(name);
        }

        private Windowed<String> session(final String[] w) {
            return new Windowed<>(w[1], new SessionWindow(Long.parseLong(w[2]), Long.parseLong(w[3])));
        }
    }

    /** Sessions of equal end: the store in memory gives the latest start first, that on disk the earliest. This is the order on disk. */
    private static Iterator<KeyValue<Windowed<String>, String>> byEndAndStart(final KeyValueIterator<Windowed<String>, String> found) {
        final List<KeyValue<Windowed<String>, String>> all = new ArrayList<>();
        found.forEachRemaining(all::add);
        found.close();
        all.sort(Comparator.comparingLong((KeyValue<Windowed<String>, String> each) -> each.key.window().end())
            .thenComparingLong(each -> each.key.window().start()));
        return all.iterator();
    }

    private static String word(final String text) {
        return text.equals("-") ? null : text;
    }

    private static String valid(final long until) {
        return until == VersionedKeyValueStore.PUT_RETURN_CODE_NOT_PUT ? "refused"
            : until == VersionedKeyValueStore.PUT_RETURN_CODE_VALID_TO_UNDEFINED ? null : "" + until;
    }

    private static String version(final VersionedRecord<String> found) {
        return found == null ? null : found.value() + "@" + found.timestamp() + "-" + (found.validTo().isPresent() ? found.validTo().get() : "");
    }

    private static <K, V> String list(final Iterator<KeyValue<K, V>> found, final Function<K, Object> shown) {
        final List<String> all = new ArrayList<>();
        while (found.hasNext()) {
            final KeyValue<K, V> each = found.next();
            all.add(shown.apply(each.key) + "=" + each.value);
        }
        if (found instanceof KeyValueIterator) ((KeyValueIterator<?, ?>) found).close();
        return String.join(",", all);
    }
}
