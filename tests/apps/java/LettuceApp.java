import io.lettuce.core.ClientOptions;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.DefaultClientResources;
import io.lettuce.core.resource.Delay;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.LogManager;

/** lettuce: subscribers and callers whose connections are killed; the library itself connects and subscribes again: {@code LettuceApp PORT}. */
public final class LettuceApp {
    private static final int SUBSCRIBERS = 8;
    private static final int ROUNDS = 5;
    private static final int MESSAGES = 200;

    private static void suite(ClientResources resources, int port, ProtocolVersion protocol) {
        String prefix = "lettuce " + protocol + ": ";
        RedisClient client = RedisClient.create(resources, RedisURI.create("127.0.0.1", port));
        client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
        RedisCommands<String, String> commands = client.connect().sync();
        List<StatefulRedisPubSubConnection<String, String>> subscribers = new ArrayList<>();
        List<List<String>> received = new ArrayList<>();
        Checks.check(prefix + "subscribes", () -> {
            commands.flushall();
            for (int n = 0; n < SUBSCRIBERS; n++) {
                List<String> messages = new CopyOnWriteArrayList<>();
                StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub();
                subscriber.addListener(new RedisPubSubAdapter<>() {
                    @Override
                    public void message(String channel, String message) {
                        messages.add(channel + " " + message);
                    }

                    @Override
                    public void message(String pattern, String channel, String message) {
                        messages.add(pattern + " " + channel + " " + message);
                    }

                    @Override
                    public void smessage(String channel, String message) {
                        messages.add("shard " + channel + " " + message);
                    }
                });
                subscriber.sync().subscribe("news");
                subscriber.sync().psubscribe("sport.*");
                subscriber.sync().ssubscribe("local");
                subscribers.add(subscriber);
                received.add(messages);
            }
            awaitAll(commands);
        });
        for (int round = 1; round <= ROUNDS; round++) {
            int number = round;
            Checks.check(prefix + "killed " + round + " times, every message after it comes, in order", () -> {
                Checks.same(commands.clientKill(KillArgs.Builder.typePubsub()), (long) SUBSCRIBERS);
                awaitAll(commands);
                publish(commands, received, number);
            });
        }
        Checks.check(prefix + "a killed caller goes on", () -> {
            RedisCommands<String, String> other = client.connect().sync();
            for (int n = 0; n < ROUNDS; n++) {
                String value = "" + n;
                Checks.same(other.clientKill(KillArgs.Builder.id(commands.clientId())), 1L);
                Checks.until("it writes again", () -> writes(commands, value));
                Checks.same(commands.get("killed"), value);
            }
        });
        Checks.check(prefix + "unsubscribes", () -> {
            subscribers.forEach(subscriber -> subscriber.sync().unsubscribe("news"));
            Checks.until("nobody is there", () -> commands.publish("news", "to nobody") == 0L);
            subscribers.forEach(StatefulRedisPubSubConnection::close);
            Checks.until("nobody is there", () -> commands.pubsubNumpat() == 0L && commands.spublish("local", "to nobody") == 0L);
        });
        client.shutdown(Duration.ZERO, Duration.ofSeconds(5));
    }

    /** Whether a value could be written; a command that was under way when its connection went may fail. */
    private static boolean writes(RedisCommands<String, String> commands, String value) {
        try {
            return commands.set("killed", value).equals("OK");
        } catch (RedisException lost) {
            return false;
        }
    }

    private static void awaitAll(RedisCommands<String, String> commands) throws Exception {
        Checks.until("subscribed", () -> commands.publish("sport.", "") == SUBSCRIBERS && commands.publish("news", "") == SUBSCRIBERS
            && commands.spublish("local", "") == SUBSCRIBERS);
    }

    private static void publish(RedisCommands<String, String> commands, List<List<String>> received, int round) throws Exception {
        List<String> expected = new ArrayList<>();
        for (int n = 0; n < MESSAGES; n++) {
            Checks.same(commands.publish("news", round + ":" + n), (long) SUBSCRIBERS);
            Checks.same(commands.publish("sport.ski", round + ":" + n), (long) SUBSCRIBERS);
            Checks.same(commands.spublish("local", round + ":" + n), (long) SUBSCRIBERS);
            expected.add("news " + round + ":" + n);
            expected.add("sport.* sport.ski " + round + ":" + n);
            expected.add("shard local " + round + ":" + n);
        }
        for (List<String> messages : received) {
            Checks.until("messages", () -> messages.contains(expected.get(expected.size() - 1)));
            List<String> got = new ArrayList<>(messages);
            got.removeIf(message -> message.endsWith(" ")); // those that only counted who is there
            Checks.same(got, expected);
            messages.clear();
        }
    }

    public static void main(String[] words) {
        LogManager.getLogManager().reset();
        ClientResources resources = DefaultClientResources.builder().reconnectDelay(Delay.constant(Duration.ofMillis(20))).build();
        suite(resources, Integer.parseInt(words[0]), ProtocolVersion.RESP2);
        suite(resources, Integer.parseInt(words[0]), ProtocolVersion.RESP3);
        resources.shutdown(0, 5, java.util.concurrent.TimeUnit.SECONDS);
        System.exit(Checks.failed ? 1 : 0);
    }
}
