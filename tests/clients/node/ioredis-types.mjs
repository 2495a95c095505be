// The data types and channels in the words of ioredis; run by `ioredis.mjs`.
import { same, until } from "./checks.mjs";

export function types(client) {
  return {
    async lists() {
      same(await client.rpush("l", "a", "b", "c"), 3);
      same(await client.linsert("l", "BEFORE", "c", "x"), 4);
      same(await client.lrange("l", 0, -1), ["a", "b", "x", "c"]);
      same(await client.lpos("l", "x"), 2);
      same(await client.lmove("l", "m", "LEFT", "RIGHT"), "a");
      same(await client.lpop("l", 5), ["b", "x", "c"]);
      same(await client.lpop("l"), null);
    },
    async "blocking pops"() {
      const waiting = client.duplicate();
      const popped = waiting.blpop("q1", "q2", 30);
      await until(async () => /blocked_clients:1\r/.test(await client.info("clients")));
      same(await client.rpush("q2", "x"), 1);
      same(await popped, ["q2", "x"]);
      same(await waiting.blpop("q1", 0.01), null);
      await client.zadd("z1", 3, "m");
      same((await waiting.bzpopmin("z1", 30)).map(String), ["z1", "m", "3"]);
      waiting.disconnect();
    },
    async hashes() {
      same(await client.hset("h", { a: 1, b: "x" }), 2);
      same(await client.hgetall("h"), { a: "1", b: "x" });
      same(await client.hincrby("h", "a", 41), 42);
      same(await client.hmget("h", "a", "none"), ["42", null]);
      same(await client.call("HEXPIRE", "h", 100, "FIELDS", 2, "b", "none"), [1, -2]);
      same((await client.call("HTTL", "h", "FIELDS", 1, "b"))[0] > 97, true);
      same(await client.call("HPEXPIRE", "h", 20, "FIELDS", 1, "b"), [1]);
      await until(async () => (await client.hexists("h", "b")) === 0);
    },
    async sets() {
      same(await client.sadd("s", 1, 2, 3, "x"), 4);
      await client.sadd("t", 2, 3, 4);
      same((await client.sinter("s", "t")).sort(), ["2", "3"]);
      same((await client.sdiff("s", "t")).sort(), ["1", "x"]);
      same(await client.sunionstore("u", "s", "t"), 5);
      same(await client.smismember("s", "1", "none"), [1, 0]);
    },
    async "sorted sets"() {
      same(await client.zadd("z", 1, "a", 2.5, "b", "+inf", "c"), 3);
      same((await client.zrange("z", 0, -1, "WITHSCORES")).flat().map(String).slice(0, 4), ["a", "1", "b", "2.5"]);
      same(Number(await client.zincrby("z", 2, "a")), 3);
      same(await client.zrank("z", "a"), 1);
      same(await client.zrangebyscore("z", "(2.5", "+inf"), ["a", "c"]);
      same(await client.zcount("z", "-inf", 3), 2);
    },
    async "streams with a group"() {
      same(await client.xadd("x", "1-1", "n", 1), "1-1");
      await client.xadd("x", "*", "n", 2);
      same(await client.xlen("x"), 2);
      same(await client.xgroup("CREATE", "x", "g", 0), "OK");
      const [[, taken]] = Object.entries(Object.fromEntries(await client.xreadgroup("GROUP", "g", "one", "COUNT", 1, "STREAMS", "x", ">")));
      same(taken, [["1-1", ["n", "1"]]]);
      same((await client.xpending("x", "g"))[0], 1);
      same((await client.xautoclaim("x", "g", "two", 0, 0))[1], [["1-1", ["n", "1"]]]);
      same(await client.xack("x", "g", "1-1"), 1);
    },
    async geo() {
      same(await client.geoadd("geo", 13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania"), 2);
      same(Math.abs(Number(await client.geodist("geo", "Palermo", "Catania", "KM")) - 166.2742) < 0.001, true);
      same(await client.geosearch("geo", "FROMLONLAT", 15, 37, "BYRADIUS", 200, "KM", "ASC"), ["Catania", "Palermo"]);
    },
    async "bitmaps and HyperLogLog"() {
      same(await client.setbit("bits", 7, 1), 0);
      same([await client.bitcount("bits"), await client.bitpos("bits", 1)], [1, 7]);
      same(await client.bitfield("field", "SET", "u8", 0, 255, "INCRBY", "u8", 0, 10), [0, 9]);
      same(await client.pfadd("hll", ...Array.from({ length: 1000 }, (_, n) => n)), 1);
      same(Math.abs((await client.pfcount("hll")) - 1000) < 30, true);
    },
    async sorting() {
      await client.rpush("nums", 3, 1, 2);
      await client.mset({ "w:1": 30, "w:2": 10, "w:3": 20 });
      same(await client.sort("nums", "DESC"), ["3", "2", "1"]);
      same(await client.sort("nums", "BY", "w:*", "GET", "w:*"), ["10", "20", "30"]);
    },
    async channels() {
      const listener = client.duplicate();
      const got = [];
      listener.on("message", (channel, message) => got.push([channel, message]));
      listener.on("pmessage", (pattern, channel, message) => got.push([pattern, channel, message]));
      same(await listener.subscribe("news", "more"), 2);
      same(await listener.psubscribe("sport.*"), 3);
      same([await client.publish("news", "one"), await client.publish("sport.ski", "two")], [1, 1]);
      await until(() => got.length === 2);
      same(got, [["news", "one"], ["sport.*", "sport.ski", "two"]]);
      same(await listener.unsubscribe("news", "more"), 1);
      same(await listener.punsubscribe("sport.*"), 0);
      same(await client.publish("news", "three"), 0);
      listener.disconnect();
    },
  };
}
