import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.args.GeoUnit;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.args.ListPosition;
import redis.clients.jedis.params.SortingParams;
import redis.clients.jedis.params.XAddParams;
import redis.clients.jedis.params.XAutoClaimParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.resps.Tuple;

/** The data types and channels in the words of jedis; run by {@code Smoke}. */
final class Types {
    static void suite(String prefix, Supplier<Jedis> connect) {
        Jedis client = connect.get();
        client.flushAll();
        Smoke.check(prefix + "lists", () -> {
            Smoke.same(client.rpush("l", "a", "b", "c"), 3L);
            Smoke.same(client.linsert("l", ListPosition.BEFORE, "c", "x"), 4L);
            Smoke.same(client.lrange("l", 0, -1), List.of("a", "b", "x", "c"));
            Smoke.same(client.lpos("l", "x"), 2L);
            Smoke.same(client.lmove("l", "m", ListDirection.LEFT, ListDirection.RIGHT), "a");
            Smoke.same(client.lpop("l", 5), List.of("b", "x", "c"));
            Smoke.same(client.lpop("l"), null);
        });
        Smoke.check(prefix + "blocking pops", () -> {
            List<List<String>> got = new ArrayList<>();
            Thread waiting = new Thread(() -> {
                try (Jedis other = connect.get()) {
                    got.add(other.blpop(30, "q1", "q2"));
                }
            });
            waiting.start();
            until(() -> client.info("clients").contains("blocked_clients:1\r"));
            client.rpush("q2", "x");
            waiting.join(30_000);
            Smoke.same(got, List.of(List.of("q2", "x")));
            client.zadd("z1", 3, "m");
            Smoke.same(client.bzpopmin(30, "z1").getValue(), new Tuple("m", 3.0));
        });
        Smoke.check(prefix + "hashes", () -> {
            Smoke.same(client.hset("h", Map.of("a", "1", "b", "x")), 2L);
            Smoke.same(client.hgetAll("h"), Map.of("a", "1", "b", "x"));
            Smoke.same(client.hincrBy("h", "a", 41), 42L);
            Smoke.same(client.hmget("h", "a", "none"), Arrays.asList("42", null));
            Smoke.same(client.hexpire("h", 100, "b", "none"), List.of(1L, -2L));
            Smoke.same(client.httl("h", "b").get(0) > 97, true);
            Smoke.same(client.hpexpire("h", 20, "b"), List.of(1L));
            until(() -> !client.hexists("h", "b"));
        });
        Smoke.check(prefix + "sets", () -> {
            Smoke.same(client.sadd("s", "1", "2", "3", "x"), 4L);
            client.sadd("t", "2", "3", "4");
            Smoke.same(client.sinter("s", "t"), Set.of("2", "3"));
            Smoke.same(client.sdiff("s", "t"), Set.of("1", "x"));
            Smoke.same(client.sunionstore("u", "s", "t"), 5L);
            Smoke.same(client.smismember("s", "1", "none"), List.of(true, false));
        });
        Smoke.check(prefix + "sorted sets", () -> {
            Smoke.same(client.zadd("z", Map.of("a", 1.0, "b", 2.5, "c", Double.POSITIVE_INFINITY)), 3L);
            Smoke.same(client.zrangeWithScores("z", 0, 1), List.of(new Tuple("a", 1.0), new Tuple("b", 2.5)));
            Smoke.same(client.zincrby("z", 2, "a"), 3.0);
            Smoke.same(client.zrank("z", "a"), 1L);
            Smoke.same(client.zrangeByScore("z", "(2.5", "+inf"), List.of("a", "c"));
            Smoke.same(client.zpopmin("z"), new Tuple("b", 2.5));
        });
        Smoke.check(prefix + "streams with a group", () -> {
            StreamEntryID first = new StreamEntryID("1-1");
            Smoke.same(client.xadd("x", Map.of("n", "1"), XAddParams.xAddParams().id(first)), first);
            client.xadd("x", Map.of("n", "2"), XAddParams.xAddParams());
            Smoke.same(client.xlen("x"), 2L);
            Smoke.same(client.xgroupCreate("x", "g", new StreamEntryID("0-0"), false), "OK");
            var taken = client.xreadGroup("g", "one", new XReadGroupParams().count(1), Map.of("x", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
            Smoke.same(taken.get(0).getValue().get(0).getFields(), Map.of("n", "1"));
            Smoke.same(client.xpending("x", "g").getTotal(), 1L);
            var claimed = client.xautoclaim("x", "g", "two", 0, new StreamEntryID("0-0"), new XAutoClaimParams());
            Smoke.same(claimed.getValue().get(0).getID(), first);
            Smoke.same(client.xack("x", "g", first), 1L);
        });
        Smoke.check(prefix + "geo", () -> {
            client.geoadd("geo", 13.361389, 38.115556, "Palermo");
            client.geoadd("geo", 15.087269, 37.502669, "Catania");
            Smoke.same(Math.abs(client.geodist("geo", "Palermo", "Catania", GeoUnit.KM) - 166.2742) < 0.001, true);
            Smoke.same(client.geohash("geo", "Palermo"), List.of("sqc8b49rny0"));
        });
        Smoke.check(prefix + "bitmaps and HyperLogLog", () -> {
            Smoke.same(client.setbit("bits", 7, true), false);
            Smoke.same(client.bitcount("bits"), 1L);
            Smoke.same(client.bitpos("bits", true), 7L);
            Smoke.same(client.bitfield("field", "SET", "u8", "0", "255", "INCRBY", "u8", "0", "10"), List.of(0L, 9L));
            for (int n = 0; n < 1000; n++) {
                client.pfadd("hll", "" + n);
            }
            Smoke.same(Math.abs(client.pfcount("hll") - 1000) < 30, true);
        });
        Smoke.check(prefix + "sorting", () -> {
            client.rpush("nums", "3", "1", "2");
            client.mset("w:1", "30", "w:2", "10", "w:3", "20");
            Smoke.same(client.sort("nums", new SortingParams().desc()), List.of("3", "2", "1"));
            Smoke.same(client.sort("nums", new SortingParams().by("w:*").get("w:*")), List.of("10", "20", "30"));
        });
        Smoke.check(prefix + "channels", () -> {
            List<String> got = new ArrayList<>();
            JedisPubSub listener = new JedisPubSub() {
                @Override
                public void onMessage(String channel, String message) {
                    got.add(channel + " " + message);
                    unsubscribe();
                }
            };
            Thread subscriber = new Thread(() -> {
                try (Jedis other = connect.get()) {
                    other.subscribe(listener, "news");
                }
            });
            subscriber.start();
            until(() -> client.publish("news", "one") == 1);
            subscriber.join(30_000);
            Smoke.same(got, List.of("news one"));
        });
        client.close();
    }

    private static void until(Supplier<Boolean> condition) {
        long began = System.nanoTime();
        while (!condition.get()) {
            if (System.nanoTime() - began > 10_000_000_000L) {
                throw new AssertionError("not in time");
            }
        }
    }

    private Types() {}
}
