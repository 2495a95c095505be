import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;

/** Smoke test of jedis: {@code Smoke PORT}. */
public final class Smoke {
    private static boolean failed;
    private static int port;

    interface Run {
        void run() throws Exception;
    }

    static void check(String name, Run run) {
        try {
            run.run();
            System.out.println("ok " + name);
        } catch (Throwable error) {
            failed = true;
            System.out.println("not ok " + name + ": " + error);
        }
    }

    static void same(Object got, Object expected) {
        if (!Objects.equals(got, expected)) {
            throw new AssertionError("expected " + expected + ", got " + got);
        }
    }

    private static void fails(Runnable run, String text) {
        try {
            run.run();
        } catch (JedisDataException error) {
            if (!error.getMessage().contains(text)) {
                throw new AssertionError("expected an error with " + text, error);
            }
            return;
        }
        throw new AssertionError("no error where one with " + text + " was expected");
    }

    private static Jedis connect(RedisProtocol protocol, String password) {
        JedisClientConfig config = DefaultJedisClientConfig.builder().protocol(protocol).password(password).build();
        return new Jedis(new HostAndPort("127.0.0.1", port), config);
    }

    private static void suite(RedisProtocol protocol) {
        Jedis client = connect(protocol, null);
        String prefix = "jedis " + protocol + ": ";
        check(prefix + "connects", () -> {
            same(client.ping(), "PONG");
            same(client.flushAll(), "OK");
        });
        check(prefix + "strings", () -> {
            same(client.set("a", "1"), "OK");
            same(client.set("a", "2", SetParams.setParams().nx()), null);
            same(client.incrBy("a", 41), 42L);
            same(client.mset("x", "1", "y", "2"), "OK");
            same(client.mget("x", "none", "y"), Arrays.asList("1", null, "2"));
            same(client.del("x", "y", "none"), 2L);
        });
        check(prefix + "pipelines", () -> {
            List<Response<String>> gets = new ArrayList<>();
            try (Pipeline pipe = client.pipelined()) {
                for (int n = 0; n < 1000; n++) {
                    pipe.set("p:" + n, "" + n);
                    gets.add(pipe.get("p:" + n));
                }
                pipe.sync();
            }
            for (int n = 0; n < 1000; n++) {
                same(gets.get(n).get(), "" + n);
            }
        });
        check(prefix + "transactions", () -> {
            Transaction transaction = client.multi();
            transaction.set("t", "1");
            transaction.incr("t");
            transaction.get("t");
            same(transaction.exec(), List.of("OK", 2L, "2"));
        });
        check(prefix + "watches", () -> {
            client.set("w", "1");
            client.watch("w");
            try (Jedis other = connect(protocol, null)) {
                other.set("w", "100");
            }
            Transaction transaction = client.multi();
            transaction.set("w", "2");
            same(transaction.exec(), null);
            same(client.get("w"), "100");
        });
        check(prefix + "scans", () -> {
            client.flushAll();
            Set<String> expected = new HashSet<>();
            for (int n = 0; n < 2000; n++) {
                expected.add("scan:" + n);
                client.set("scan:" + n, "1");
            }
            Set<String> found = new HashSet<>();
            String cursor = "0";
            do {
                var page = client.scan(cursor, new ScanParams().match("scan:*").count(100));
                found.addAll(page.getResult());
                cursor = page.getCursor();
            } while (!cursor.equals("0"));
            same(found, expected);
        });
        check(prefix + "expires", () -> {
            client.set("e", "1", SetParams.setParams().px(30));
            long began = System.nanoTime();
            while (client.exists("e")) {
                if (System.nanoTime() - began > 5_000_000_000L) {
                    throw new AssertionError("it does not expire");
                }
            }
            client.setex("e", 100, "1");
            same(client.ttl("e") > 97, true);
            same(client.persist("e"), 1L);
        });
        check(prefix + "binaries", () -> {
            byte[] value = new byte[65536];
            for (int n = 0; n < value.length; n++) {
                value[n] = (byte) n;
            }
            byte[] key = {0, -1};
            client.set(key, value);
            same(Arrays.equals(client.get(key), value), true);
        });
        check(prefix + "errors", () -> {
            client.set("word", "x");
            fails(() -> client.incr("word"), "not an integer");
            fails(() -> client.sendCommand(() -> "NO-SUCH-COMMAND".getBytes()), "unknown command");
            same(client.get("word"), "x");
        });
        Types.suite(prefix, () -> connect(protocol, null));
        check(prefix + "authenticates", () -> {
            client.configSet("requirepass", "secret");
            try (Jedis known = connect(protocol, "secret")) {
                same(known.ping(), "PONG");
                fails(() -> connect(protocol, "wrong").ping(), "WRONGPASS");
            } finally {
                client.configSet("requirepass", "");
            }
        });
        client.close();
    }

    public static void main(String[] words) {
        port = Integer.parseInt(words[0]);
        suite(RedisProtocol.RESP2);
        suite(RedisProtocol.RESP3);
        System.exit(failed ? 1 : 0);
    }
}
