import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.args.ClientType;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.params.ClientKillParams;

/** jedis: subscribers whose connections are killed, and who come back: {@code JedisApp PORT}. */
public final class JedisApp {
    private static final int SUBSCRIBERS = 8;
    private static final int ROUNDS = 5;
    private static final int MESSAGES = 200;
    private static int port;

    private static Jedis connect(RedisProtocol protocol) {
        return new Jedis(new HostAndPort("127.0.0.1", port), DefaultJedisClientConfig.builder().protocol(protocol).build());
    }

    /** A subscriber as applications write it with jedis: subscribed in a loop, for jedis leaves reconnecting to its user. */
    private static final class Subscriber extends Thread {
        final List<String> messages = new CopyOnWriteArrayList<>();
        final List<String> matched = new CopyOnWriteArrayList<>();
        final AtomicInteger connected = new AtomicInteger();
        final AtomicBoolean over = new AtomicBoolean();
        private final RedisProtocol protocol;
        private volatile JedisPubSub current;

        Subscriber(RedisProtocol protocol) {
            this.protocol = protocol;
            setDaemon(true);
        }

        @Override
        public void run() {
            while (!over.get()) {
                JedisPubSub listener = new JedisPubSub() {
                    @Override
                    public void onMessage(String channel, String message) {
                        messages.add(message);
                    }

                    @Override
                    public void onPMessage(String pattern, String channel, String message) {
                        matched.add(pattern + " " + channel + " " + message);
                    }

                    @Override
                    public void onSubscribe(String channel, int count) {
                        psubscribe("sport.*");
                    }

                    @Override
                    public void onPSubscribe(String pattern, int count) {
                        connected.incrementAndGet();
                    }

                    @Override
                    public void onUnsubscribe(String channel, int count) {
                        punsubscribe();
                    }
                };
                try (Jedis jedis = connect(protocol)) {
                    current = listener;
                    jedis.subscribe(listener, "news");
                } catch (JedisConnectionException killed) {
                    // Connects again.
                }
            }
        }

        void end() throws Exception {
            over.set(true);
            current.unsubscribe();
            join(10_000);
            Checks.same(isAlive(), false);
        }
    }

    private static void suite(RedisProtocol protocol) {
        String prefix = "jedis " + protocol + ": ";
        Jedis client = connect(protocol);
        List<Subscriber> subscribers = new ArrayList<>();
        for (int n = 0; n < SUBSCRIBERS; n++) {
            subscribers.add(new Subscriber(protocol));
        }
        Checks.check(prefix + "subscribes", () -> {
            subscribers.forEach(Thread::start);
            awaitAll(client, subscribers, 1);
        });
        for (int round = 1; round <= ROUNDS; round++) {
            int number = round;
            Checks.check(prefix + "killed " + round + " times, every message after it comes, in order", () -> {
                Checks.same(client.clientKill(new ClientKillParams().type(ClientType.PUBSUB)), (long) SUBSCRIBERS);
                awaitAll(client, subscribers, number + 1);
                publish(client, subscribers, number);
            });
        }
        Checks.check(prefix + "unsubscribes", () -> {
            for (Subscriber subscriber : subscribers) {
                subscriber.end();
            }
            Checks.same(client.publish("news", "to nobody"), 0L);
            Checks.same(client.publish("sport.ski", "to nobody"), 0L);
            Checks.same(client.pubsubChannels(), List.of());
            Checks.same(client.pubsubNumPat(), 0L);
        });
        client.close();
    }

    private static void awaitAll(Jedis client, List<Subscriber> subscribers, int times) throws Exception {
        for (Subscriber subscriber : subscribers) {
            Checks.until("subscribed", () -> subscriber.connected.get() == times);
        }
        Checks.same(client.pubsubChannels(), List.of("news"));
    }

    private static void publish(Jedis client, List<Subscriber> subscribers, int round) throws Exception {
        List<String> messages = new ArrayList<>();
        List<String> matched = new ArrayList<>();
        for (int n = 0; n < MESSAGES; n++) {
            Checks.same(client.publish("news", round + ":" + n), (long) SUBSCRIBERS);
            Checks.same(client.publish("sport." + n, round + "!"), (long) SUBSCRIBERS);
            messages.add(round + ":" + n);
            matched.add("sport.* sport." + n + " " + round + "!");
        }
        for (Subscriber subscriber : subscribers) {
            Checks.until("messages", () -> subscriber.matched.size() >= MESSAGES);
            Checks.same(List.copyOf(subscriber.messages), messages);
            Checks.same(List.copyOf(subscriber.matched), matched);
            subscriber.messages.clear();
            subscriber.matched.clear();
        }
    }

    public static void main(String[] words) {
        port = Integer.parseInt(words[0]);
        suite(RedisProtocol.RESP2);
        suite(RedisProtocol.RESP3);
        System.exit(Checks.failed ? 1 : 0);
    }
}
