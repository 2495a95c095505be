// Smoke test of node-redis: `node node-redis.mjs PORT`.
import { createClient, RESP_TYPES } from "redis";
import { binary, check, fails, finish, port, same, until } from "./checks.mjs";
import { types } from "./node-redis-types.mjs";

async function suite(RESP) {
  const options = { url: `redis://127.0.0.1:${port}`, RESP, socket: { reconnectStrategy: false } };
  const client = createClient(options);
  client.on("error", () => {});
  const name = (what) => `node-redis RESP${RESP}: ${what}`;

  await check(name("connects"), async () => {
    await client.connect();
    same(await client.ping(), "PONG");
    same(await client.flushAll(), "OK");
  });
  await check(name("strings"), async () => {
    same(await client.set("a", "1"), "OK");
    same(await client.set("a", "2", { condition: "NX" }), null);
    same(await client.incrBy("a", 41), 42);
    same(await client.mSet({ x: "1", y: "2" }), "OK");
    same(await client.mGet(["x", "none", "y"]), ["1", null, "2"]);
    same(await client.del(["x", "y", "none"]), 2);
  });
  await check(name("pipelines"), async () => {
    const numbers = Array.from({ length: 1000 }, (_, n) => n);
    const replies = await Promise.all(numbers.map(async (n) => {
      client.set(`p:${n}`, String(n));
      return client.get(`p:${n}`);
    }));
    same(replies, numbers.map(String));
  });
  await check(name("transactions"), async () => {
    same(await client.multi().set("t", "1").incr("t").get("t").exec(), ["OK", 2, "2"]);
  });
  await check(name("watches"), async () => {
    const other = createClient(options);
    await other.connect();
    await client.set("w", "1");
    await client.watch("w");
    await other.set("w", "100");
    await fails(client.multi().set("w", "2").exec(), "watched");
    same(await client.get("w"), "100");
    await other.close();
  });
  await check(name("scans"), async () => {
    await client.flushAll();
    const expected = Array.from({ length: 2000 }, (_, n) => `scan:${n}`);
    await client.mSet(expected.map((key) => [key, "1"]));
    const found = new Set();
    for await (const keys of client.scanIterator({ MATCH: "scan:*", COUNT: 100 })) keys.forEach((key) => found.add(key));
    same([...found].sort(), expected.sort());
  });
  await check(name("expires"), async () => {
    await client.set("e", "1", { expiration: { type: "PX", value: 30 } });
    await until(async () => (await client.exists("e")) === 0);
    await client.set("e", "1", { expiration: { type: "EX", value: 100 } });
    same((await client.ttl("e")) > 97, true);
    same(await client.persist("e"), 1);
  });
  await check(name("binaries"), async () => {
    const buffers = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
    await client.set(Buffer.from([0, 255]), binary);
    same(await buffers.get(Buffer.from([0, 255])), binary);
  });
  await check(name("errors"), async () => {
    await client.set("word", "x");
    await fails(client.incr("word"), "not an integer");
    await fails(client.sendCommand(["NO-SUCH-COMMAND"]), "unknown command");
    same(await client.get("word"), "x");
  });
  await check(name("authenticates"), async () => {
    await client.configSet("requirepass", "secret");
    try {
      const known = createClient({ ...options, password: "secret" });
      await known.connect();
      same(await known.ping(), "PONG");
      await known.close();
      const wrong = createClient({ ...options, password: "wrong" });
      wrong.on("error", () => {});
      await fails(wrong.connect(), "WRONGPASS");
    } finally {
      await client.configSet("requirepass", "");
    }
  });
  await client.flushAll();
  for (const [what, run] of Object.entries(types(client))) await check(name(what), run);
  await client.close();
}

await suite(2);
await suite(3);
finish();
