import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TransactionAbortableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Apache Kafka's command-line tools, and programs on its Java clients, in one JVM.
 *
 * A line on standard input is a class and its arguments, parted by tabs; the answer is one line: what it printed, in base64. A class
 * without a package is one of those below.
 */
public class Programs {
    static final class Exited extends RuntimeException {
        Exited(int code) {
            super("exit code " + code);
        }
    }

    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((code, message) -> { throw new Exited(code); });
        Exit.setHaltProcedure((code, message) -> { throw new Exited(code); });
        PrintStream answers = System.out;
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream out = new PrintStream(said, true, "UTF-8");
            System.setOut(out);
            System.setErr(out);
            String[] words = line.split("\t", -1);
            try {
                String[] arguments = Arrays.copyOfRange(words, 1, words.length);
                program(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException thrown) {
                out.println(thrown.getCause() instanceof Exited ? thrown.getCause().getMessage() : thrown.getCause());
            }
            answers.println(Base64.getEncoder().encodeToString(said.toByteArray()));
            answers.flush();
        }
    }

    static Class<?> program(String name) throws ClassNotFoundException {
        return switch (name) {
            case "Transactions" -> Transactions.class;
            case "Many" -> Many.class;
            case "Read" -> Read.class;
            case "Copy" -> Copy.class;
            case "Group" -> Group.class;
            default -> Class.forName(name);
        };
    }

    static Properties settings(String bootstrap, String... more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        for (int at = 0; at < more.length; at += 2) settings.put(more[at], more[at + 1]);
        return settings;
    }

    /** Commit, abort and fence: bootstrap, topic. */
    public static class Transactions {
        public static void main(String[] args) throws Exception {
            Properties settings = settings(args[0], "transactional.id", "java-" + args[1], "linger.ms", "0");
            KafkaProducer<String, String> first = new KafkaProducer<>(settings);
            first.initTransactions();
            for (String end : List.of("committed", "aborted", "committed again")) {
                first.beginTransaction();
                for (int n = 0; n < 5; n++) first.send(new ProducerRecord<>(args[1], n % 2, "k" + n, end + " " + n)).get();
                if (end.equals("aborted")) first.abortTransaction();
                else first.commitTransaction();
            }
            first.beginTransaction();
            first.send(new ProducerRecord<>(args[1], 0, "k", "of the fenced")).get();
            KafkaProducer<String, String> second = new KafkaProducer<>(settings);
            second.initTransactions();
            try {
                first.commitTransaction();
                System.out.println("the first was not fenced");
            } catch (ProducerFencedException fenced) {
                System.out.println("the first is fenced");
            }
            second.beginTransaction();
            second.send(new ProducerRecord<>(args[1], 1, "k", "of the second")).get();
            second.commitTransaction();
            first.close();
            second.close();
            for (String isolation : List.of("read_committed", "read_uncommitted")) {
                System.out.println(isolation + " " + everything(args[0], args[1], 2, isolation));
            }
        }
    }

    /**
     * Short transactions, each third of them aborted: bootstrap, topic, transactional id, number. Prints the milliseconds of all of them, and how
     * often one had to be repeated: a leader of Apache Kafka sometimes refuses the first batch of a transaction with INVALID_TXN_STATE, when the
     * marker of the one before arrives while it has the partition added.
     */
    public static class Many {
        public static void main(String[] args) throws Exception {
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings(args[0], "transactional.id", args[2], "linger.ms", "0"))) {
                producer.initTransactions();
                long began = System.nanoTime();
                int repeated = 0;
                for (int n = 0; n < Integer.parseInt(args[3]); n++) {
                    producer.beginTransaction();
                    for (int partition = 0; partition < 2; partition++) producer.send(new ProducerRecord<>(args[1], partition, "k", args[2] + " " + n));
                    try {
                        if (n % 3 == 2) producer.abortTransaction();
                        else producer.commitTransaction();
                    } catch (TransactionAbortableException refused) {
                        if (++repeated > 20) throw refused;
                        producer.abortTransaction();
                        n--;
                    }
                }
                System.out.println((System.nanoTime() - began) / 1_000_000 + " " + repeated);
            }
        }
    }

    /** What read_committed sees of a topic of two partitions: bootstrap, topic. */
    public static class Read {
        public static void main(String[] args) throws Exception {
            System.out.println(everything(args[0], args[1], 2, "read_committed"));
        }
    }

    static Map<Integer, List<String>> everything(String bootstrap, String topic, int partitions, String isolation) {
        Map<Integer, List<String>> found = new TreeMap<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings(bootstrap, "isolation.level", isolation))) {
            List<TopicPartition> places = new ArrayList<>();
            for (int n = 0; n < partitions; n++) places.add(new TopicPartition(topic, n));
            consumer.assign(places);
            consumer.seekToBeginning(places);
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            while (!places.stream().allMatch(place -> consumer.position(place) >= ends.get(place))) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    found.computeIfAbsent(record.partition(), none -> new ArrayList<>()).add(record.value());
                }
            }
        }
        return found;
    }

    /** Consume, transform, produce and commit the offsets in one transaction: bootstrap, source, target, records. */
    public static class Copy {
        public static void main(String[] args) {
            int left = Integer.parseInt(args[3]);
            Properties consuming = settings(args[0], "group.id", "copy-" + args[1], "isolation.level", "read_committed");
            Properties producing = settings(args[0], "transactional.id", "copy-" + args[1]);
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consuming);
                 KafkaProducer<String, String> producer = new KafkaProducer<>(producing)) {
                producer.initTransactions();
                consumer.subscribe(List.of(args[1]));
                while (left > 0) {
                    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                    if (records.isEmpty()) continue;
                    producer.beginTransaction();
                    Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
                    for (ConsumerRecord<String, String> record : records) {
                        producer.send(new ProducerRecord<>(args[2], record.partition(), record.key(), record.value() + "!"));
                        positions.put(new TopicPartition(args[1], record.partition()), new OffsetAndMetadata(record.offset() + 1, "round"));
                    }
                    producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
                    producer.commitTransaction();
                    left -= records.count();
                }
                System.out.println(new TreeMap<>(committed(consumer, args[1])));
            }
            System.out.println(everything(args[0], args[2], 2, "read_committed"));
        }

        static Map<Integer, Long> committed(KafkaConsumer<String, String> consumer, String topic) {
            Map<Integer, Long> found = new HashMap<>();
            consumer.committed(consumer.assignment()).forEach((place, offset) -> found.put(place.partition(), offset == null ? -1 : offset.offset()));
            return found;
        }
    }

    /** Two members of a group with an assignor: bootstrap, topic, assignor, records to read in all. */
    public static class Group {
        public static void main(String[] args) {
            Properties settings = settings(args[0], "group.id", args[2].substring(args[2].lastIndexOf('.') + 1), "partition.assignment.strategy", args[2]);
            TreeSet<String> values = new TreeSet<>();
            try (KafkaConsumer<String, String> first = new KafkaConsumer<>(settings);
                 KafkaConsumer<String, String> second = new KafkaConsumer<>(settings)) {
                List<KafkaConsumer<String, String>> members = List.of(first, second);
                members.forEach(member -> member.subscribe(List.of(args[1])));
                while (values.size() < Integer.parseInt(args[3]) || first.assignment().size() != 2 || second.assignment().size() != 2) {
                    for (KafkaConsumer<String, String> member : members) {
                        member.poll(Duration.ofMillis(50)).forEach(record -> values.add(record.value()));
                        try {
                            member.commitSync();
                        } catch (RebalanceInProgressException | CommitFailedException later) {
                            // its next poll takes part in the rebalance
                        }
                    }
                }
                System.out.println("each has two of four");
                second.close();
                while (first.assignment().size() != 4) first.poll(Duration.ofMillis(50)).forEach(record -> values.add(record.value()));
                System.out.println("the first has all four");
            }
            System.out.println(values);
        }
    }
}
