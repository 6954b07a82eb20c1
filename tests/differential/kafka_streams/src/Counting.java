import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * One instance that counts the values of topic `words` into topic `counts`, exactly once, in a streams group, until it is killed.
 * Arguments: bootstrap servers, a folder for its state.
 */
public final class Counting {
    public static void main(final String[] args) throws Exception {
        final StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("words")
            .groupBy((key, word) -> word, Grouped.as("by-word"))
            .count(Materialized.as("counts"))
            .toStream().mapValues(String::valueOf).to("counts");
        final Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("application.id", "counting");
        settings.put("group.protocol", "streams");
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", "100");
        settings.put("replication.factor", "1");
        settings.put("state.dir", args[1]);
        settings.put("num.stream.threads", "2");
        settings.put("producer.transaction.timeout.ms", "5000");
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        final KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println(now));
        streams.start();
        new CountDownLatch(1).await();
    }
}
