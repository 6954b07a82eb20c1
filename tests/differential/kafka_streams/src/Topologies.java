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
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.BiFunction;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.LogAndSkipOnInvalidTimestamp;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Runs topologies of several topics through TopologyTestDriver. Cases come on standard input, tab-separated lines from CASE to END:
 * OP kind id arguments, then ROW topic key value timestamp, with the value of the header "h" behind it or not. A value of "\N" is null. The functions are fixed; tests/models/topology_case.py
 * has the same ones.
 */
@SuppressWarnings({"unchecked", "rawtypes"})
public final class Topologies {
    private static final String NULL = "\\N";
    static final String STATES = System.getProperty("states", System.getProperty("java.io.tmpdir"));
    private static final ValueJoiner<String, String, String> PAIR = (left, right) ->
        "q1".equals(left) ? null : "(" + text(left) + text(right) + ")";

    private final StreamsBuilder builder = new StreamsBuilder();
    private final Map<String, Object> made = new HashMap<>();
    private final Map<String, Boolean> windowed = new HashMap<>();

    public static void main(final String[] args) throws Exception {
        final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        List<String[]> lines = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            final String[] fields = line.split("\t", -1);
            if (fields[0].equals("END")) {
                try {
                    new Topologies().run(lines, out);
                } catch (final RuntimeException error) {
                    out.println("REFUSED\t" + error);
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
        final File state = Files.createTempDirectory(Path.of(STATES), "topologies").toFile();
        for (final String[] line : lines) if (line[0].equals("OP")) make(line);
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), config(state), Instant.ofEpochMilli(0))) {
            final TestOutputTopic<String, String> output =
                driver.createOutputTopic("output", new StringDeserializer(), new StringDeserializer());
            final Map<String, TestInputTopic<String, String>> inputs = new HashMap<>();
            int row = 0;
            for (final String[] line : lines) {
                if (!line[0].equals("ROW")) continue;
                final TestInputTopic<String, String> input = inputs.computeIfAbsent(
                    line[1], topic -> driver.createInputTopic(topic, new StringSerializer(), new StringSerializer()));
                try {
                    input.pipeInput(new TestRecord<>(nullable(line[2]), nullable(line[3]), headers(line), Long.parseLong(line[4])));
                } catch (final RuntimeException error) {
                    out.println("DIE\t" + row + "\t" + error + " " + error.getCause());
                    return;
                }
                while (!output.isEmpty()) {
                    final TestRecord<String, String> record = output.readRecord();
                    out.println("OUT\t" + row + "\t" + orNull(record.key()) + "\t" + orNull(record.value()) + "\t" + record.timestamp() + "\t" + header(record));
                }
                row++;
            }
            double dropped = 0;
            for (final Map.Entry<MetricName, ? extends Metric> metric : driver.metrics().entrySet()) {
                if (metric.getKey().name().equals("dropped-records-total")) dropped += (Double) metric.getValue().metricValue();
            }
            out.println("DROPPED\t" + (long) dropped);
        } finally {
            delete(state);
        }
    }

    private void make(final String[] op) {
        final String id = op[2];
        windowed.put(id, op.length > 3 && windowed.getOrDefault(op[3], false));
        switch (op[1]) {
            case "stream": made.put(id, builder.<String, String>stream(op[3])); break;
            case "table":
                made.put(id, op[4].equals("1") ? builder.table(op[3], Materialized.as("store-" + id)) : builder.table(op[3])); break;
            case "versioned":
                made.put(id, builder.<String, String>table(op[3], Materialized.as(
                    Stores.persistentVersionedKeyValueStore("store-" + id, Duration.ofMillis(Long.parseLong(op[4])))))); break;
            case "global": made.put(id, builder.globalTable(op[3])); break;
            case "map": made.put(id, stream(op[3]).mapValues(v -> v == null ? null : v + "'")); break;
            case "filter": made.put(id, stream(op[3]).filter((k, v) -> even(v))); break;
            case "not": made.put(id, stream(op[3]).filterNot((k, v) -> even(v))); break;
            case "select": made.put(id, stream(op[3]).selectKey((k, v) -> first(v))); break;
            case "merge": made.put(id, stream(op[3]).merge(stream(op[4]))); break;
            case "repartition": made.put(id, stream(op[3]).repartition()); break;
            case "to_table":
                made.put(id, op[4].equals("1") ? stream(op[3]).toTable(Materialized.as("store-" + id)) : stream(op[3]).toTable()); break;
            case "count": made.put(id, stream(op[3]).groupByKey().count(Materialized.with(Serdes.String(), Serdes.Long()))
                .mapValues(n -> "c" + n, Materialized.with(Serdes.String(), Serdes.String()))); break;
            case "aggregate": made.put(id, stream(op[3]).groupByKey().aggregate(() -> "", Topologies::plus)); break;
            case "windows":
                made.put(id, stream(op[3]).groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(ms(op[4]), ms(op[5])))
                    .aggregate(() -> "", Topologies::plus, Materialized.with(Serdes.String(), Serdes.String())));
                windowed.put(id, true);
                break;
            case "hopping":
                made.put(id, stream(op[3]).groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(ms(op[4]), ms(op[5])).advanceBy(ms("2")))
                    .aggregate(() -> "", Topologies::plus, Materialized.with(Serdes.String(), Serdes.String())));
                windowed.put(id, true);
                break;
            case "sessions":
                made.put(id, stream(op[3]).groupByKey().windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(op[4]), ms(op[5])))
                    .aggregate(() -> "", Topologies::plus, (k, a, b) -> a + "/" + b, Materialized.with(Serdes.String(), Serdes.String())));
                windowed.put(id, true);
                break;
            case "sliding":
                made.put(id, stream(op[3]).groupByKey().windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(op[4]), ms(op[5])))
                    .aggregate(() -> "", Topologies::plus, Materialized.with(Serdes.String(), Serdes.String())));
                windowed.put(id, true);
                break;
            case "reduce": made.put(id, stream(op[3]).groupByKey().reduce((a, v) -> "q1".equals(v) ? null : a + v)); break;
            case "cogroup":
                made.put(id, stream(op[3]).groupByKey().<String>cogroup((k, v, a) -> a + "+" + v)
                    .cogroup(stream(op[4]).groupByKey(), (k, v, a) -> a + "*" + v).aggregate(() -> "")); break;
            case "cogroup_windows":
                made.put(id, stream(op[3]).groupByKey().<String>cogroup((k, v, a) -> a + "+" + v)
                    .cogroup(stream(op[4]).groupByKey(), (k, v, a) -> a + "*" + v)
                    .windowedBy(TimeWindows.ofSizeAndGrace(ms(op[5]), ms(op[6])))
                    .aggregate(() -> "", Materialized.with(Serdes.String(), Serdes.String())));
                windowed.put(id, true);
                break;
            case "join_table":
                if (op.length > 6) {
                    final Joined<String, String, String> grace =
                        Joined.<String, String, String>with(Serdes.String(), Serdes.String(), Serdes.String()).withGracePeriod(ms(op[6]));
                    made.put(id, op[5].equals("left") ? stream(op[3]).leftJoin(table(op[4]), PAIR, grace)
                        : stream(op[3]).join(table(op[4]), PAIR, grace));
                } else {
                    made.put(id, op[5].equals("left") ? stream(op[3]).leftJoin(table(op[4]), PAIR) : stream(op[3]).join(table(op[4]), PAIR));
                }
                break;
            case "join_global":
                made.put(id, op[5].equals("left")
                    ? stream(op[3]).leftJoin((GlobalKTable<String, String>) made.get(op[4]), (k, v) -> first(v), PAIR)
                    : stream(op[3]).join((GlobalKTable<String, String>) made.get(op[4]), (k, v) -> first(v), PAIR)); break;
            case "join":
                final JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(ms("100000"), ms(op[8])).before(ms(op[6])).after(ms(op[7]));
                made.put(id, op[5].equals("left") ? stream(op[3]).leftJoin(stream(op[4]), PAIR, windows)
                    : op[5].equals("outer") ? stream(op[3]).outerJoin(stream(op[4]), PAIR, windows)
                    : stream(op[3]).join(stream(op[4]), PAIR, windows)); break;
            case "map_table":
                made.put(id, op[4].equals("1") ? table(op[3]).mapValues(v -> v + "'", Materialized.as("store-" + id)) : table(op[3]).mapValues(v -> v + "'")); break;
            case "filter_table":
                made.put(id, op[4].equals("1") ? ((KTable<Object, String>) made.get(op[3])).filter((k, v) -> even(v), (Materialized) Materialized.as("store-" + id)) : ((KTable<Object, String>) made.get(op[3])).filter((k, v) -> even(v))); break;
            case "known_table":
                made.put(id, op[4].equals("1") ? table(op[3]).mapValues(Topologies::known, Materialized.as("store-" + id)) : table(op[3]).mapValues(Topologies::known)); break;
            case "not_table":
                made.put(id, op[4].equals("1") ? ((KTable<Object, String>) made.get(op[3])).filterNot((k, v) -> even(v), (Materialized) Materialized.as("store-" + id)) : ((KTable<Object, String>) made.get(op[3])).filterNot((k, v) -> even(v))); break;
            case "join_tables": made.put(id, joined(op, id)); break;
            case "foreign":
                made.put(id, op[5].equals("left") ? table(op[3]).leftJoin(table(op[4]), Topologies::first, PAIR)
                    : table(op[3]).join(table(op[4]), Topologies::first, PAIR)); break;
            case "foreign_named":
                final BiFunction<String, String, String> named = (k, v) -> "x".equals(k) ? "a" : first(v);
                made.put(id, op[5].equals("left") ? table(op[3]).leftJoin(table(op[4]), named, PAIR)
                    : table(op[3]).join(table(op[4]), named, PAIR)); break;
            case "group":
                made.put(id, table(op[3]).groupBy((k, v) -> KeyValue.pair(first(v), v)).aggregate(() -> "", (k, v, a) -> "q1".equals(v) ? null : a + "+" + v, (k, v, a) -> a + "-" + v)); break;
            case "group_reduce":
                made.put(id, table(op[3]).groupBy((k, v) -> KeyValue.pair(first(v), v)).reduce((a, v) -> a + "+" + v, (a, v) -> a + "-" + v)); break;
            case "group_count":
                made.put(id, table(op[3]).groupBy((k, v) -> KeyValue.pair(first(v), v)).count(Materialized.with(Serdes.String(), Serdes.Long()))
                    .mapValues(n -> "c" + n, Materialized.with(Serdes.String(), Serdes.String()))); break;
            case "bounded":
                made.put(id, ((KTable) made.get(op[3])).suppress(
                    Suppressed.untilTimeLimit(ms(op[4]), BufferConfig.maxRecords(Long.parseLong(op[5])).emitEarlyWhenFull()))); break;
            case "limit":
                made.put(id, table(op[3]).suppress(Suppressed.untilTimeLimit(ms(op[4]), BufferConfig.unbounded()))); break;
            case "final":
                made.put(id, ((KTable) made.get(op[3])).suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()))); break;
            case "to_stream":
                if (windowed.get(id)) {
                    made.put(id, ((KTable<Windowed<String>, String>) made.get(op[3])).toStream()
                        .selectKey((w, v) -> w.key() + "|" + w.window().start() + "|" + w.window().end()));
                    windowed.put(id, false);
                } else {
                    made.put(id, table(op[3]).toStream());
                }
                break;
            case "out": stream(op[3]).to("output"); break;
            default: throw new IllegalArgumentException(op[1]);
        }
    }

    private KTable<?, ?> joined(final String[] op, final String id) {
        final KTable left = (KTable) made.get(op[3]);
        final KTable right = (KTable) made.get(op[4]);
        if (op[6].equals("1")) {
            final Materialized<String, String, KeyValueStore<Bytes, byte[]>> store = Materialized.as("store-" + id);
            return op[5].equals("left") ? left.leftJoin(right, PAIR, store)
                : op[5].equals("outer") ? left.outerJoin(right, PAIR, store) : left.join(right, PAIR, store);
        }
        return op[5].equals("left") ? left.leftJoin(right, PAIR)
            : op[5].equals("outer") ? left.outerJoin(right, PAIR) : left.join(right, PAIR);
    }

    private KStream<String, String> stream(final String id) {
        return (KStream<String, String>) made.get(id);
    }

    private KTable<String, String> table(final String id) {
        return (KTable<String, String>) made.get(id);
    }

    private static Duration ms(final String text) {
        return Duration.ofMillis(Long.parseLong(text));
    }

    private static String plus(final String key, final String value, final String aggregate) {
        return "q1".equals(value) ? null : aggregate + value;
    }

    private static String known(final String value) {
        return "b".equals(first(value)) ? null : value;
    }

    private static boolean even(final String value) {
        return value != null && value.length() % 2 == 0;
    }

    private static String first(final String value) {
        final String letters = value == null ? "" : value.replaceAll("[^a-z]", "");
        return letters.isEmpty() || letters.charAt(0) == 'n' ? null : letters.substring(0, 1);
    }

    private static String text(final String value) {
        return value == null ? "." : value;
    }

    private static Headers headers(final String[] row) {
        final Headers headers = new RecordHeaders();
        if (row.length > 5) headers.add("h", row[5].getBytes(StandardCharsets.UTF_8));
        return headers;
    }

    private static String header(final TestRecord<?, ?> record) {
        final Header last = record.headers().lastHeader("h");
        return last == null ? NULL : new String(last.value(), StandardCharsets.UTF_8);
    }

    static String nullable(final String text) {
        return text.equals(NULL) ? null : text;
    }

    static String orNull(final String text) {
        return text == null ? NULL : text;
    }

    static Properties config(final File state) {
        final Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "topologies");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:9092");
        config.put(StreamsConfig.STATE_DIR_CONFIG, state.getAbsolutePath());
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.DEFAULT_TIMESTAMP_EXTRACTOR_CLASS_CONFIG, LogAndSkipOnInvalidTimestamp.class);
        config.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        config.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        return config;
    }

    static void delete(final File file) {
        final File[] children = file.listFiles();
        if (children != null) for (final File child : children) delete(child);
        file.delete();
    }
}
