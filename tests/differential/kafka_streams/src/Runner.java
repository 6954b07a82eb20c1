import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.LogAndSkipOnInvalidTimestamp;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Runs cases through Kafka Streams' TopologyTestDriver. Cases come on standard input, tab-separated lines from CASE to
 * END; answers go to standard output. A value of "\N" is null. Functions are fixed, so that both sides have the same:
 * strings are concatenated, "!" deletes an aggregate, filter keeps even counts or texts of even length.
 */
public final class Runner {
    private static final String NULL = "\\N";
    /** Where the stores of a case are: the driver commits after every row, and on a disk that is what takes the time. */
    private static final String STATES = System.getProperty("states", System.getProperty("java.io.tmpdir"));

    public static void main(final String[] args) throws Exception {
        final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        List<String[]> lines = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            final String[] fields = line.split("\t", -1);
            if (fields[0].equals("BENCH")) {
                out.println("CPU\t" + bench(fields[1], Long.parseLong(fields[2]), Long.parseLong(fields[3])));
                out.flush();
            } else if (fields[0].equals("END")) {
                run(lines, out);
                out.println("END");
                out.flush();
                lines = new ArrayList<>();
            } else {
                lines.add(fields);
            }
        }
    }

    /** CPU nanoseconds of this thread for count + suppress in memory over the rows (key, timestamp) of a file. */
    private static long bench(final String file, final long size, final long grace) throws Exception {
        final List<String> rows = Files.readAllLines(new File(file).toPath());
        final File state = Files.createTempDirectory("kstreams").toFile();
        final StreamsBuilder builder = new StreamsBuilder();
        builder.stream("input", Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey()
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(size), Duration.ofMillis(grace)))
            .count(Materialized.<String, Long>as(Stores.inMemoryWindowStore(
                "counts", Duration.ofMillis(size + grace), Duration.ofMillis(size), false)))
            .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()))
            .toStream()
            .map((w, v) -> KeyValue.pair(w.key(), String.valueOf(v)))
            .to("output", Produced.with(Serdes.String(), Serdes.String()));
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), config(state), Instant.ofEpochMilli(0))) {
            final TestInputTopic<String, String> input =
                driver.createInputTopic("input", new StringSerializer(), new StringSerializer());
            final ThreadMXBean clock = ManagementFactory.getThreadMXBean();
            final long began = clock.getCurrentThreadCpuTime();
            for (final String row : rows) {
                final int tab = row.indexOf('\t');
                input.pipeInput(row.substring(0, tab), "1", Long.parseLong(row.substring(tab + 1)));
            }
            return clock.getCurrentThreadCpuTime() - began;
        } finally {
            delete(state);
        }
    }

    private static Properties config(final File state) {
        final Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "differential");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:9092");
        config.put(StreamsConfig.STATE_DIR_CONFIG, state.getAbsolutePath());
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.DEFAULT_TIMESTAMP_EXTRACTOR_CLASS_CONFIG, LogAndSkipOnInvalidTimestamp.class);
        config.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        return config;
    }

    private static void run(final List<String[]> lines, final PrintStream out) throws Exception {
        final File state = Files.createTempDirectory(Path.of(STATES), "kstreams").toFile();
        final StreamsBuilder builder = new StreamsBuilder();
        topology(builder, lines);
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), config(state), Instant.ofEpochMilli(0))) {
            final TestInputTopic<String, String> input =
                driver.createInputTopic("input", new StringSerializer(), new StringSerializer());
            final TestOutputTopic<String, String> output =
                driver.createOutputTopic("output", new StringDeserializer(), new StringDeserializer());
            int row = 0;
            for (final String[] line : lines) {
                if (!line[0].equals("ROW")) {
                    continue;
                }
                try {
                    input.pipeInput(nullable(line[1]), nullable(line[2]), Long.parseLong(line[3]));
                } catch (final RuntimeException error) {
                    print(out, row, output);
                    out.println("DIE\t" + row + "\t" + root(error));
                    return;
                }
                print(out, row, output);
                row++;
            }
            double dropped = 0;
            for (final Map.Entry<MetricName, ? extends Metric> metric : driver.metrics().entrySet()) {
                if (metric.getKey().name().equals("dropped-records-total")) {
                    dropped += (Double) metric.getValue().metricValue();
                }
            }
            out.println("DROPPED\t" + (long) dropped);
        } finally {
            delete(state);
        }
    }

    private static void print(final PrintStream out, final int row, final TestOutputTopic<String, String> output) {
        while (!output.isEmpty()) {
            final TestRecord<String, String> record = output.readRecord();
            out.println("OUT\t" + row + "\t" + record.key() + "\t"
                + (record.value() == null ? NULL : record.value()) + "\t" + record.timestamp());
        }
    }

    private static void topology(final StreamsBuilder builder, final List<String[]> lines) {
        final String[] windows = find(lines, "WINDOWS");
        final String aggregation = find(lines, "AGGREGATE")[1];
        final boolean emits = find(lines, "EMIT") != null;
        final KStream<String, String> stream = builder.stream("input", Consumed.with(Serdes.String(), Serdes.String()));
        if (windows[1].equals("none")) {
            final KTable<String, ?> table;
            if (aggregation.equals("table")) {
                table = stream.toTable(Materialized.with(Serdes.String(), Serdes.String()));
            } else {
                final KGroupedStream<String, String> grouped =
                    stream.groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
                table = switch (aggregation) {
                    case "count" -> grouped.count();
                    case "reduce" -> grouped.reduce(Runner::add, Materialized.with(Serdes.String(), Serdes.String()));
                    default -> grouped.aggregate(
                        () -> "", (k, v, a) -> add(a, v), Materialized.with(Serdes.String(), Serdes.String()));
                };
            }
            steps(table, lines).map((k, v) -> KeyValue.pair(k, text(v)))
                .to("output", Produced.with(Serdes.String(), Serdes.String()));
            return;
        }
        final KGroupedStream<String, String> grouped = stream.groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
        final EmitStrategy strategy = emits ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
        final KTable<Windowed<String>, ?> table;
        if (windows[1].equals("session")) {
            final SessionWindowedKStream<String, String> sessions = grouped
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(windows[2]), ms(windows[3])))
                .emitStrategy(strategy);
            table = switch (aggregation) {
                case "count" -> sessions.count();
                case "reduce" -> sessions.reduce(Runner::add, Materialized.with(Serdes.String(), Serdes.String()));
                default -> sessions.aggregate(
                    () -> "", (k, v, a) -> add(a, v), (k, a, b) -> a + "+" + b,
                    Materialized.with(Serdes.String(), Serdes.String()));
            };
        } else {
            final TimeWindowedKStream<String, String> windowed = switch (windows[1]) {
                case "time" -> grouped.windowedBy(
                    TimeWindows.ofSizeAndGrace(ms(windows[2]), ms(windows[4])).advanceBy(ms(windows[3])));
                case "sliding" -> grouped.windowedBy(
                    SlidingWindows.ofTimeDifferenceAndGrace(ms(windows[2]), ms(windows[3])));
                default -> grouped.windowedBy(
                    UnlimitedWindows.of().startOn(Instant.ofEpochMilli(Long.parseLong(windows[2]))));
            };
            final TimeWindowedKStream<String, String> emitting = emits ? windowed.emitStrategy(strategy) : windowed;
            table = switch (aggregation) {
                case "count" -> emitting.count();
                case "reduce" -> emitting.reduce(Runner::add, Materialized.with(Serdes.String(), Serdes.String()));
                default -> emitting.aggregate(
                    () -> "", (k, v, a) -> add(a, v), Materialized.with(Serdes.String(), Serdes.String()));
            };
        }
        steps(table, lines)
            .map((w, v) -> KeyValue.pair(w.key() + "|" + w.window().start() + "|" + w.window().end(), text(v)))
            .to("output", Produced.with(Serdes.String(), Serdes.String()));
    }

    /** "!" deletes; null counts as a dash. */
    private static String add(final String aggregate, final String value) {
        if ("!".equals(value)) {
            return null;
        }
        return aggregate + (value == null ? "-" : value);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static <K> KStream<K, Object> steps(final KTable<K, ?> start, final List<String[]> lines) {
        KTable table = start;
        boolean texts = !find(lines, "AGGREGATE")[1].equals("count");
        for (final String[] line : lines) {
            switch (line[0]) {
                case "FILTER" -> table = table.filter((k, v) -> keeps(v));
                case "MAP" -> {
                    final Serde<String> serde = Serdes.String();
                    table = table.mapValues(v -> "<" + v + ">", Materialized.with(null, (Serde) serde));
                }
                case "FINAL" -> table = table.suppress(
                    Suppressed.untilWindowCloses((Suppressed.StrictBufferConfig) bounds(line, 1, true)));
                case "LIMIT" -> table = table.suppress(
                    Suppressed.untilTimeLimit(ms(line[1]), bounds(line, 2, line[4].equals("shut_down"))));
                default -> { }
            }
        }
        return table.toStream();
    }

    private static BufferConfig<?> bounds(final String[] line, final int at, final boolean shutsDown) {
        final long records = Long.parseLong(line[at]);
        final long bytes = Long.parseLong(line[at + 1]);
        if (records < 0 && bytes < 0) {
            return BufferConfig.unbounded();
        }
        Suppressed.EagerBufferConfig config = records < 0 ? BufferConfig.maxBytes(bytes) : BufferConfig.maxRecords(records);
        if (records >= 0 && bytes >= 0) {
            config = config.withMaxBytes(bytes);
        }
        return shutsDown ? config.shutDownWhenFull() : config.emitEarlyWhenFull();
    }

    private static boolean keeps(final Object value) {
        return value instanceof Long ? (Long) value % 2 == 0 : ((String) value).length() % 2 == 0;
    }

    private static String text(final Object value) {
        return value == null ? null : String.valueOf(value);
    }

    private static String nullable(final String field) {
        return field.equals(NULL) ? null : field;
    }

    private static Duration ms(final String field) {
        return Duration.ofMillis(Long.parseLong(field));
    }

    private static String[] find(final List<String[]> lines, final String name) {
        return lines.stream().filter(line -> line[0].equals(name)).findFirst().orElse(null);
    }

    private static String root(final Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        return String.valueOf(cause.getMessage()).replace('\n', ' ').replace('\t', ' ');
    }

    private static void delete(final File file) {
        final File[] children = file.listFiles();
        if (children != null) {
            for (final File child : children) {
                delete(child);
            }
        }
        file.delete();
    }
}
