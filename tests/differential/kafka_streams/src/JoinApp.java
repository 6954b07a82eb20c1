import java.io.File;
import java.nio.file.Files;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;

/** A join from topic to topic, exactly once, with RocksDB. Ends when all rows of the left topic have passed the join's input. */
public final class JoinApp {
    /** Arguments: bootstrap servers, "table" or "stream", left topic, right topic, output topic, rows of the left topic. */
    public static void main(final String[] args) throws Exception {
        final long rows = Long.parseLong(args[5]);
        final File state = Files.createTempDirectory("kstreams").toFile();
        final AtomicLong seen = new AtomicLong();
        final CountDownLatch done = new CountDownLatch(1);
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> left = builder.<String, String>stream(args[2]).peek((k, v) -> {
            if (seen.incrementAndGet() >= rows) done.countDown();
        });
        final KStream<String, String> joined;
        if (args[1].equals("table")) {
            joined = left.join(builder.<String, String>table(args[3]), (mine, other) -> mine);
        } else {
            final JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(1), Duration.ofSeconds(1));
            joined = left.join(builder.<String, String>stream(args[3]), (mine, other) -> mine, windows);
        }
        joined.to(args[4]);
        final Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app-" + args[4]);
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
        }
    }
}
