package org.apache.kafka.common.test.junit;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.opentest4j.TestAbortedException;

/**
 * Takes the place of the class of this name in Apache Kafka's test runtime: a test gets a cluster of another kind, which the command in
 * STREAMACTORS_CLUSTERS starts. A line to the command: "start", the number of brokers, and settings; "down" or "up" and a broker; "end".
 * Its parts are separated by tabs. The command answers with one line. A test that looks into the brokers themselves is aborted.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private static Process command;
    private static BufferedReader answers;

    private final String name;
    private final ClusterConfig config;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean isCombined) {
        this.name = name;
        this.config = config;
    }

    @Override
    public String getDisplayName(int index) {
        return name;
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        Cluster cluster = new Cluster(config);
        return List.of(
            (BeforeEachCallback) context -> { if (config.isAutoStart()) cluster.start(); },
            (AfterTestExecutionCallback) context -> cluster.stop(),
            new ClusterInstanceParameterResolver(cluster));
    }

    static synchronized String ask(String... words) {
        try {
            if (command == null) {
                command = new ProcessBuilder(System.getenv("STREAMACTORS_CLUSTERS").split(" "))
                    .redirectError(ProcessBuilder.Redirect.INHERIT).start();
                answers = new BufferedReader(new InputStreamReader(command.getInputStream(), StandardCharsets.UTF_8));
            }
            command.getOutputStream().write((String.join("\t", words) + "\n").getBytes(StandardCharsets.UTF_8));
            command.getOutputStream().flush();
            String answer = answers.readLine();
            if (answer == null) throw new IllegalStateException("the command ended");
            if (answer.startsWith("refused ")) throw new TestAbortedException(answer);
            return answer;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A cluster as a test knows it. */
    static final class Cluster implements ClusterInstance {
        private final ClusterConfig config;
        private final Set<Integer> down = new TreeSet<>();
        private String bootstrap;

        Cluster(ClusterConfig config) {
            this.config = config;
        }

        @Override
        public void start() {
            if (bootstrap != null) return;
            if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT) throw new TestAbortedException("needs a login");
            if (!config.perServerOverrideProperties().isEmpty()) throw new TestAbortedException("gives each broker settings of its own");
            List<String> words = new ArrayList<>(List.of("start", Integer.toString(config.numBrokers())));
            new TreeMap<>(config.serverProperties()).forEach((key, value) -> words.add(key + "=" + value));
            bootstrap = ask(words.toArray(new String[0]));
            if (!config.features().isEmpty()) level();
        }

        private void level() {
            try (Admin admin = admin()) {
                for (Map.Entry<Feature, Short> each : config.features().entrySet()) {
                    String feature = each.getKey().featureName();
                    short now = Optional.ofNullable(admin.describeFeatures().featureMetadata().get().finalizedFeatures().get(feature))
                        .map(range -> range.maxVersionLevel()).orElse((short) 0);
                    if (now == each.getValue()) continue;
                    FeatureUpdate.UpgradeType type = now < each.getValue()
                        ? FeatureUpdate.UpgradeType.UPGRADE : FeatureUpdate.UpgradeType.SAFE_DOWNGRADE;
                    admin.updateFeatures(Map.of(feature, new FeatureUpdate(each.getValue(), type)), new UpdateFeaturesOptions()).all().get();
                }
            } catch (InterruptedException | ExecutionException error) {
                throw new TestAbortedException("the features " + config.features() + " cannot be had: " + error);
            }
        }

        @Override
        public void stop() {
            if (bootstrap != null) ask("end");
            bootstrap = null;
        }

        @Override
        public boolean started() {
            return bootstrap != null;
        }

        @Override
        public boolean stopped() {
            return bootstrap == null;
        }

        @Override
        public void shutdownBroker(int id) {
            down.add(id);
            ask("down", Integer.toString(id));
        }

        @Override
        public void startBroker(int id) {
            ask("up", Integer.toString(id));
            down.remove(id);
        }

        @Override
        public String bootstrapServers() {
            return bootstrap;
        }

        @Override
        public ClusterConfig config() {
            return config;
        }

        @Override
        public Type type() {
            return Type.KRAFT;
        }

        @Override
        public Set<GroupProtocol> supportedGroupProtocols() {
            return Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER);
        }

        @Override
        public Set<Integer> brokerIds() {
            Set<Integer> ids = new TreeSet<>();
            for (int id = 1; id <= config.numBrokers(); id++) ids.add(id);
            return ids;
        }

        @Override
        public Map<Integer, KafkaBroker> brokers() {
            Map<Integer, KafkaBroker> found = new TreeMap<>() {
                @Override
                public KafkaBroker get(Object id) {
                    return super.get(id.equals(0) ? 1 : id); // a test that means any broker means broker 0; ours begin with 1
                }
            };
            for (int id : brokerIds()) found.put(id, broker(id));
            return found;
        }

        private KafkaBroker broker(int id) {
            return (KafkaBroker) Proxy.newProxyInstance(KafkaBroker.class.getClassLoader(), new Class<?>[] {KafkaBroker.class}, (proxy, method, args) ->
                switch (method.getName()) {
                    case "awaitShutdown" -> null;
                    case "isShutdown" -> down.contains(id);
                    case "metadataCache" -> metadataCache();
                    case "hashCode" -> id;
                    case "equals" -> proxy == args[0];
                    case "toString" -> "broker " + id;
                    default -> throw new TestAbortedException("looks into a broker: " + method.getName());
                });
        }

        private MetadataCache metadataCache() {
            return (MetadataCache) Proxy.newProxyInstance(MetadataCache.class.getClassLoader(), new Class<?>[] {MetadataCache.class}, (proxy, method, args) -> {
                if (!method.getName().equals("getAliveBrokerNodes")) throw new TestAbortedException("looks into a broker: " + method.getName());
                try (Admin admin = admin()) {
                    return List.copyOf(admin.describeCluster().nodes().get());
                }
            });
        }

        @Override
        public void waitForReadyBrokers() throws InterruptedException {
            until(() -> {
                try (Admin admin = admin()) {
                    return admin.describeCluster().nodes().get().size() == config.numBrokers() - down.size();
                }
            }, "brokers");
        }

        @Override
        public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
            until(() -> everywhere(topic) == partitions, topic + " to be there");
        }

        @Override
        public void waitTopicDeletion(String topic) throws InterruptedException {
            until(() -> everywhere(topic) == 0, topic + " to be gone");
        }

        /** The number of partitions that every broker knows; -1 while they differ or a partition has no leader. */
        private int everywhere(String topic) throws Exception {
            int found = -2;
            List<String> addresses;
            try (Admin admin = admin()) {
                addresses = admin.describeCluster().nodes().get().stream().map(node -> node.host() + ":" + node.port()).toList();
            }
            for (String address : addresses) {
                int here = 0;
                try (Admin admin = admin(Map.of("bootstrap.servers", address))) {
                    if (admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get().contains(topic)) {
                        List<TopicPartitionInfo> known = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions();
                        for (TopicPartitionInfo each : known) if (each.leader() == null || each.leader().equals(Node.noNode())) return -1;
                        here = known.size();
                    }
                }
                if (found != -2 && found != here) return -1;
                found = here;
            }
            return found;
        }

        private interface Condition {
            boolean holds() throws Exception;
        }

        private static void until(Condition condition, String what) throws InterruptedException {
            long limit = System.nanoTime() + 60_000_000_000L;
            Exception last = null;
            while (System.nanoTime() < limit) {
                try {
                    if (condition.holds()) return;
                } catch (InterruptedException stopped) {
                    throw stopped;
                } catch (Exception error) {
                    last = error;
                }
                Thread.sleep(50);
            }
            throw new AssertionError("waited 60 s for " + what, last);
        }

        @Override
        public void ensureConsistentMetadata() {
        }

        @Override
        public String clusterId() {
            try (Admin admin = admin()) {
                return admin.describeCluster().clusterId().get();
            } catch (InterruptedException | ExecutionException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public ListenerName clientListener() {
            return ListenerName.normalised("PLAINTEXT");
        }

        @Override
        public ListenerName controllerListenerName() {
            return ListenerName.normalised("CONTROLLER");
        }

        @Override
        public String bootstrapControllers() {
            throw new TestAbortedException("asks the controllers");
        }

        @Override
        public Map<Integer, ControllerServer> controllers() {
            throw new TestAbortedException("looks into the controllers");
        }

        @Override
        public Set<Integer> controllerIds() {
            throw new TestAbortedException("looks into the controllers");
        }

        @Override
        public Optional<FaultHandlerException> firstFatalException() {
            return Optional.empty();
        }

        @Override
        public Optional<FaultHandlerException> firstNonFatalException() {
            return Optional.empty();
        }
    }
}
