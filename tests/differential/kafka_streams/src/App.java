import java.io.File;
import java.nio.file.Files;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;

/** count + suppress from topic to topic, exactly once, with RocksDB: prints the milliseconds from the first row to the last. */
public final class App {
    /** Arguments: bootstrap servers, input topic, output topic, rows, window size and grace in milliseconds. */
    public static void main(final String[] args) throws Exception {
        final long rows = Long.parseLong(args[3]);
        final File state = Files.createTempDirectory("kstreams").toFile();
        final AtomicLong seen = new AtomicLong();
        final AtomicLong began = new AtomicLong();
        final CountDownLatch done = new CountDownLatch(1);
        final StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[1], Consumed.with(Serdes.String(), Serdes.String()))
            .peek((k, v) -> {
                final long n = seen.incrementAndGet();
                if (n == 1) {
                    began.set(System.nanoTime());
                } else if (n >= rows) {  // more, if a transaction was begun anew
                    done.countDown();
                }
            })
            .groupByKey()
            .windowedBy(TimeWindows.ofSizeAndGrace(
                Duration.ofMillis(Long.parseLong(args[4])), Duration.ofMillis(Long.parseLong(args[5]))))
            .count(Materialized.as("counts"))
            .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()))
            .toStream()
            .map((w, v) -> KeyValue.pair(w.key(), String.valueOf(v)))
            .to(args[2], Produced.with(Serdes.String(), Serdes.String()));
        final Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app-" + args[2]);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, state.getPath());
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        config.put("auto.offset.reset", "earliest");
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        try (KafkaStreams streams = new KafkaStreams(builder.build(), config)) {
            streams.start();
            done.await();
            System.out.println("MS\t" + (System.nanoTime() - began.get()) / 1_000_000);
        }
    }
}
