// Smoke test of ioredis: `node ioredis.mjs PORT`.
import Redis from "ioredis";
import { binary, check, fails, finish, port, same, until } from "./checks.mjs";
import { types } from "./ioredis-types.mjs";

const client = new Redis({ port, lazyConnect: true, maxRetriesPerRequest: 1 });
client.on("error", () => {});

await check("ioredis: connects", async () => {
  await client.connect();
  same(await client.ping(), "PONG");
  same(await client.flushall(), "OK");
});
await check("ioredis: strings", async () => {
  same(await client.set("a", "1"), "OK");
  same(await client.set("a", "2", "NX"), null);
  same(await client.incrby("a", 41), 42);
  same(await client.mset({ x: 1, y: 2 }), "OK");
  same(await client.mget("x", "none", "y"), ["1", null, "2"]);
  same(await client.getrange("a", 0, 0), "4");
  same(await client.del("x", "y", "none"), 2);
});
await check("ioredis: pipelines", async () => {
  const pipe = client.pipeline();
  for (let n = 0; n < 1000; n++) pipe.set(`p:${n}`, n).get(`p:${n}`);
  const replies = await pipe.exec();
  same(replies.filter((_, n) => n % 2).map(([error, value]) => error ?? value), Array.from({ length: 1000 }, (_, n) => String(n)));
});
await check("ioredis: transactions", async () => {
  same(await client.multi().set("t", 1).incr("t").get("t").exec(), [[null, "OK"], [null, 2], [null, "2"]]);
});
await check("ioredis: watches", async () => {
  const other = client.duplicate();
  await client.set("w", 1);
  await client.watch("w");
  await other.set("w", 100);
  same(await client.multi().set("w", 2).exec(), null);
  same(await client.get("w"), "100");
  other.disconnect();
});
await check("ioredis: scans", async () => {
  await client.flushall();
  const expected = Array.from({ length: 2000 }, (_, n) => `scan:${n}`);
  await client.mset(expected.flatMap((key) => [key, 1]));
  const found = new Set();
  for await (const keys of client.scanStream({ match: "scan:*", count: 100 })) keys.forEach((key) => found.add(key));
  same([...found].sort(), expected.sort());
});
await check("ioredis: expires", async () => {
  await client.set("e", 1, "PX", 30);
  await until(async () => (await client.exists("e")) === 0);
  await client.set("e", 1, "EX", 100);
  same((await client.ttl("e")) > 97, true);
  same(await client.persist("e"), 1);
});
await check("ioredis: binaries", async () => {
  await client.set(Buffer.from([0, 255]), binary);
  same(await client.getBuffer(Buffer.from([0, 255])), binary);
});
await check("ioredis: errors", async () => {
  await client.set("word", "x");
  await fails(client.incr("word"), "not an integer");
  await fails(client.call("NO-SUCH-COMMAND"), "unknown command");
  same(await client.get("word"), "x");
});
await check("ioredis: authenticates", async () => {
  await client.config("SET", "requirepass", "secret");
  try {
    const known = new Redis({ port, password: "secret" });
    same(await known.ping(), "PONG");
    known.disconnect();
    const stranger = new Redis({ port, lazyConnect: true, enableReadyCheck: false, retryStrategy: null });
    stranger.on("error", () => {});
    await fails(stranger.get("a"), "NOAUTH");
    stranger.disconnect();
  } finally {
    await client.config("SET", "requirepass", "");
  }
});
await client.flushall();
for (const [name, run] of Object.entries(types(client))) await check(`ioredis: ${name}`, run);
client.disconnect();
finish();
