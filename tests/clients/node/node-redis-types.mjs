// The data types and channels in the words of node-redis; run by `node-redis.mjs`.
import { same, until } from "./checks.mjs";

export function types(client) {
  return {
    async lists() {
      same(await client.rPush("l", ["a", "b", "c"]), 3);
      same(await client.lInsert("l", "BEFORE", "c", "x"), 4);
      same(await client.lRange("l", 0, -1), ["a", "b", "x", "c"]);
      same(await client.lPos("l", "x"), 2);
      same(await client.lMove("l", "m", "LEFT", "RIGHT"), "a");
      same(await client.lPopCount("l", 5), ["b", "x", "c"]);
      same(await client.lPop("l"), null);
    },
    async "blocking pops"() {
      const waiting = await client.duplicate().connect();
      const popped = waiting.blPop(["q1", "q2"], 30);
      await until(async () => /blocked_clients:1\r/.test(await client.info("clients")));
      same(await client.rPush("q2", "x"), 1);
      same({ ...(await popped) }, { key: "q2", element: "x" });
      same(await waiting.blPop("q1", 0.01), null);
      await client.zAdd("z1", { score: 3, value: "m" });
      same({ ...(await waiting.bzPopMin("z1", 30)) }, { key: "z1", value: "m", score: 3 });
      await waiting.close();
    },
    async hashes() {
      same(await client.hSet("h", { a: "1", b: "x" }), 2);
      same({ ...(await client.hGetAll("h")) }, { a: "1", b: "x" });
      same(await client.hIncrBy("h", "a", 41), 42);
      same(await client.hmGet("h", ["a", "none"]), ["42", null]);
      same(await client.hExpire("h", ["b", "none"], 100), [1, -2]);
      same((await client.hTTL("h", ["b"]))[0] > 97, true);
      same(await client.hpExpire("h", ["b"], 20), [1]);
      await until(async () => !(await client.hExists("h", "b")));
    },
    async sets() {
      same(await client.sAdd("s", ["1", "2", "3", "x"]), 4);
      await client.sAdd("t", ["2", "3", "4"]);
      same([...(await client.sInter(["s", "t"]))].sort(), ["2", "3"]);
      same([...(await client.sDiff(["s", "t"]))].sort(), ["1", "x"]);
      same(await client.sUnionStore("u", ["s", "t"]), 5);
      same((await client.smIsMember("s", ["1", "none"])).map(Boolean), [true, false]);
    },
    async "sorted sets"() {
      same(await client.zAdd("z", [{ score: 1, value: "a" }, { score: 2.5, value: "b" }, { score: Infinity, value: "c" }]), 3);
      const all = await client.zRangeWithScores("z", 0, -1);
      same(all.map(({ value, score }) => [value, score]), [["a", 1], ["b", 2.5], ["c", Infinity]]);
      same(await client.zIncrBy("z", 2, "a"), 3);
      same(await client.zRank("z", "a"), 1);
      same(await client.zRangeByScore("z", "(2.5", "+inf"), ["a", "c"]);
      same(await client.zmScore("z", ["a", "none"]), [3, null]);
    },
    async "streams with a group"() {
      same(await client.xAdd("x", "1-1", { n: "1" }), "1-1");
      await client.xAdd("x", "*", { n: "2" });
      same(await client.xLen("x"), 2);
      same(await client.xGroupCreate("x", "g", "0"), "OK");
      const [taken] = await client.xReadGroup("g", "one", { key: "x", id: ">" }, { COUNT: 1 });
      same([taken.name, taken.messages.map(({ id, message }) => [id, { ...message }])], ["x", [["1-1", { n: "1" }]]]);
      same((await client.xPending("x", "g")).pending, 1);
      same((await client.xAutoClaim("x", "g", "two", 0, "0")).messages.map(({ id }) => id), ["1-1"]);
      same(await client.xAck("x", "g", "1-1"), 1);
    },
    async geo() {
      const places = [{ longitude: 13.361389, latitude: 38.115556, member: "Palermo" }, { longitude: 15.087269, latitude: 37.502669, member: "Catania" }];
      same(await client.geoAdd("geo", places), 2);
      same(Math.abs((await client.geoDist("geo", "Palermo", "Catania", "km")) - 166.2742) < 0.001, true);
      const found = await client.geoSearch("geo", { longitude: 15, latitude: 37 }, { radius: 200, unit: "km" }, { SORT: "ASC" });
      same(found, ["Catania", "Palermo"]);
    },
    async "bitmaps and HyperLogLog"() {
      same(await client.setBit("bits", 7, 1), 0);
      same([await client.bitCount("bits"), await client.bitPos("bits", 1)], [1, 7]);
      const operations = [{ operation: "SET", encoding: "u8", offset: 0, value: 255 }, { operation: "INCRBY", encoding: "u8", offset: 0, increment: 10 }];
      same(await client.bitField("field", operations), [0, 9]);
      same(Number(await client.pfAdd("hll", Array.from({ length: 1000 }, (_, n) => String(n)))), 1);
      same(Math.abs((await client.pfCount("hll")) - 1000) < 30, true);
    },
    async sorting() {
      await client.rPush("nums", ["3", "1", "2"]);
      await client.mSet({ "w:1": "30", "w:2": "10", "w:3": "20" });
      same(await client.sort("nums", { DIRECTION: "DESC" }), ["3", "2", "1"]);
      same(await client.sort("nums", { BY: "w:*", GET: "w:*" }), ["10", "20", "30"]);
    },
    async channels() {
      const listener = await client.duplicate().connect();
      const got = [];
      await listener.subscribe("news", (message, channel) => got.push([channel, message]));
      await listener.pSubscribe("sport.*", (message, channel) => got.push([channel, message]));
      await listener.sSubscribe("local", (message, channel) => got.push([channel, message]));
      same([await client.publish("news", "one"), await client.publish("sport.ski", "two"), await client.sPublish("local", "three")], [1, 1, 1]);
      await until(() => got.length === 3);
      same(got, [["news", "one"], ["sport.ski", "two"], ["local", "three"]]);
      await listener.unsubscribe();
      same(await client.publish("news", "four"), 0);
      await listener.close();
    },
  };
}
