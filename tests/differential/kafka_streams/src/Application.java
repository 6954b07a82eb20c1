import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KafkaStreams.CloseOptions;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * A Kafka Streams application on a real broker: a repartition topic, a count with its changelog and a global table.
 *
 * Two instances share the work; one leaves in the middle, so tasks move and their state is read back; at the end all of the state
 * is read back by a third one that has none. Prints what came out. Arguments: bootstrap servers, processing guarantee,
 * group protocol (classic or streams).
 */
public final class Application {
    private static final int LINES = 4_000;
    private static final int WORDS = 40;
    private static final Duration SOON = Duration.ofSeconds(60);

    private static String bootstrap;
    private static String guarantee;
    private static String protocol;

    public static void main(final String[] args) {
        bootstrap = args[0];
        guarantee = args[1];
        protocol = args.length > 2 ? args[2] : "classic";
        try {
            play();
        } catch (final Throwable failure) {
            failure.printStackTrace();
            System.exit(1);  // the threads of Kafka Streams would keep the process for ever
        }
    }

    private static void play() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
             KafkaProducer<String, String> producer = new KafkaProducer<>(
                 Map.of("bootstrap.servers", bootstrap, "linger.ms", 5), new StringSerializer(), new StringSerializer())) {
            final List<NewTopic> topics = new ArrayList<>();
            for (final String name : List.of("lines", "names", "counted", "named")) topics.add(new NewTopic(topic(name), 2, (short) 1));
            admin.createTopics(topics).all().get();
            for (int word = 0; word < WORDS; word += 2) producer.send(new ProducerRecord<>(topic("names"), "w" + word, "n" + word)).get();
            final KafkaStreams stays = start();
            final KafkaStreams leaves = start();
            await("both have tasks", () -> tasks(stays) > 0 && tasks(leaves) > 0);
            write(producer, 0, LINES / 2);
            await("half is counted", () -> sum(newest(topic("counted"), null).values()) == LINES);
            leaves.close(new CloseOptions().leaveGroup(true).timeout(SOON));
            write(producer, LINES / 2, LINES);
            await("all is counted", () -> sum(newest(topic("counted"), null).values()) == 2 * LINES);
            final List<String> named = new ArrayList<>();
            await("all is joined", () -> {
                named.clear();
                return newest(topic("named"), named).size() == WORDS / 2 && named.size() >= LINES;
            });
            System.out.println("counted " + newest(topic("counted"), null));
            System.out.println("joined " + (guarantee.startsWith("exactly") ? named.size() + " " : "") + new TreeSet<>(named));
            stays.close(SOON);
            final KafkaStreams anew = start();
            await("all state is read back", () -> sum(stored(anew)) == 2 * LINES);
            anew.close(SOON);
            for (final String name : new TreeSet<>(admin.listTopics().names().get())) {
                if (name.startsWith(id() + "-")) System.out.println(name + " " + ownSettings(admin, name));
            }
        }
    }

    private static String topic(final String name) {
        return name + "-" + guarantee;
    }

    private static String id() {
        return "application-" + guarantee;
    }

    private static KafkaStreams start() throws Exception {
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> words = builder.<String, String>stream(topic("lines"))
            .flatMap((key, line) -> Arrays.stream(line.split(" ")).map(word -> KeyValue.pair(word, word)).toList())
            .repartition(Repartitioned.<String, String>as("words").withNumberOfPartitions(3));
        words.groupByKey().count(Materialized.as("counts")).toStream().mapValues(String::valueOf).to(topic("counted"));
        words.join(builder.<String, String>globalTable(topic("names")), (key, word) -> word, (word, name) -> name + "=" + word)
            .to(topic("named"));
        final Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("application.id", id());
        settings.put("processing.guarantee", guarantee);
        settings.put("group.protocol", protocol);
        settings.put("commit.interval.ms", "100");
        settings.put("replication.factor", "1");
        settings.put("state.dir", Files.createTempDirectory("kstreams").toString());
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("internal.leave.group.on.close", true);
        final KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("failed: " + error);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        return streams;
    }

    private static int tasks(final KafkaStreams streams) {
        return streams.metadataForLocalThreads().stream().mapToInt(thread -> thread.activeTasks().size()).sum();
    }

    private static void write(final KafkaProducer<String, String> producer, final int from, final int to) {
        for (int n = from; n < to; n++) {
            producer.send(new ProducerRecord<>(topic("lines"), n % 2, null, "w" + n % WORDS + " w" + n * 7 % WORDS));
        }
        producer.flush();
    }

    /** The newest value of each key; all values go to `every`, too. */
    private static TreeMap<String, String> newest(final String topic, final List<String> every) {
        final TreeMap<String, String> found = new TreeMap<>();
        final Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed");
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            final List<TopicPartition> places = List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
            consumer.assign(places);
            consumer.seekToBeginning(places);
            final Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            while (!places.stream().allMatch(place -> consumer.position(place) >= ends.get(place))) {
                for (final ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    found.put(record.key(), record.value());
                    if (every != null) every.add(record.value());
                }
            }
        }
        return found;
    }

    private static List<String> stored(final KafkaStreams streams) {
        final List<String> values = new ArrayList<>();
        try (KeyValueIterator<String, Long> all = streams.store(
                 StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.<String, Long>keyValueStore())).all()) {
            all.forEachRemaining(entry -> values.add(String.valueOf(entry.value)));
        } catch (final InvalidStateStoreException notYet) {
            values.clear();
        }
        return values;
    }

    private static long sum(final Iterable<String> counts) {
        long sum = 0;
        for (final String count : counts) sum += Long.parseLong(count);
        return sum;
    }

    private static List<String> ownSettings(final Admin admin, final String topic) throws Exception {
        final ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).entries().stream()
            .filter(entry -> entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG)
            .map(entry -> entry.name() + "=" + entry.value()).sorted().toList();
    }

    private static void await(final String what, final BooleanSupplier met) throws InterruptedException {
        final long deadline = System.nanoTime() + SOON.toNanos();
        while (!met.getAsBoolean()) {
            if (System.nanoTime() > deadline) throw new AssertionError("not within " + SOON.toSeconds() + " s: " + what);
            Thread.sleep(50);
        }
    }
}
