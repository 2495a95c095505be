// redlock over ioredis: a lock that is held in three databases, and what it protects: `node redlock.mjs PORT`.
import Redis from "ioredis";
import Redlock, { ExecutionError } from "redlock";
import { check, finish, port, same, until } from "./checks.mjs";

const HOLDERS = 20;
const TIMES = 10;
const connections = [];

/** A lock manager with connections of its own to three databases, as if they were three servers. */
function manager(settings) {
  const clients = [0, 1, 2].map((db) => new Redis({ port, db }));
  connections.push(...clients);
  return new Redlock(clients, settings);
}

const client = new Redis({ port });
const databases = [0, 1, 2].map((db) => new Redis({ port, db }));
connections.push(client, ...databases);
await client.flushall();

/** What two of the three databases agree about: redlock goes on when it has them, and the third may lag behind. */
async function majority(ask) {
  const answers = await Promise.all(databases.map(ask));
  return answers.find((answer, n) => answers.indexOf(answer) !== n);
}

const isHeld = (resource) => majority((db) => db.exists(resource)).then(Boolean);
const isGone = async (...resources) => (await Promise.all(databases.map((db) => db.exists(...resources)))).every((count) => count === 0);

async function refuses(promise) {
  const error = await promise.then(() => undefined, (error) => error);
  if (!(error instanceof ExecutionError)) throw new Error(`expected an ExecutionError, got ${error}`);
}

/** The lock, sooner or later. redlock itself keeps what it has got of a lock while it tries again, which two that have a third each would not survive. */
async function acquired(locks, resource) {
  const deadline = Date.now() + 60000;
  for (;;) {
    try {
      return await locks.acquire([resource], 60000);
    } catch (error) {
      if (!(error instanceof ExecutionError) || Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
    }
  }
}

await check("redlock: one at a time", async () => {
  let inside = 0;
  await client.set("counter", 0);
  await Promise.all(Array.from({ length: HOLDERS }, async () => {
    const locks = manager({ retryCount: 0 });
    for (let n = 0; n < TIMES; n += 1) {
      const lock = await acquired(locks, "resource");
      inside += 1;
      same(inside, 1);
      const value = Number(await client.get("counter"));
      await client.set("counter", value + 1);
      inside -= 1;
      await lock.release();
    }
  }));
  same(await client.get("counter"), String(HOLDERS * TIMES));
  await until(() => isGone("resource"));
});
await check("redlock: held, extended, expired, taken by the next", async () => {
  const [first, second] = [manager({ retryCount: 0 }), manager({ retryCount: 0 })];
  let lock = await first.acquire(["a", "b"], 60000);
  await refuses(second.acquire(["b"], 1000));
  await refuses(second.acquire(["c", "a"], 1000));
  await until(() => isGone("c"));
  lock = await lock.extend(120000);
  same(await majority(async (db) => (await db.pttl("a")) > 60000), true);
  lock = await lock.extend(30);
  const patient = manager({ retryCount: 1000, retryDelay: 5, retryJitter: 0 });
  const next = await patient.acquire(["b"], 60000);
  await refuses(lock.extend(1000));
  same(await majority((db) => db.get("b")), next.value);
  await next.release();
  await until(() => isGone("a", "b"));
});
await check("redlock: a stranger's release takes nothing", async () => {
  const [one, other] = [manager({ retryCount: 0 }), manager({ retryCount: 0 })];
  const lock = await one.acquire(["mine"], 60000);
  const forged = await other.acquire(["yours"], 60000);
  forged.resources = ["mine"];
  await refuses(other.release(forged, { retryCount: 0 }));
  same(await majority((db) => db.get("mine")), lock.value);
  await lock.release();
});
await check("redlock: using() extends while the work lasts", async () => {
  const locks = manager({ automaticExtensionThreshold: 3500, retryCount: 0 });
  await locks.using(["long"], 4000, async (signal) => {
    let [extended, before] = [0, 4000];
    await until(async () => {
      same(signal.aborted, false);
      same(await isHeld("long"), true);
      const [, life] = (await Promise.all(databases.map((db) => db.pttl("long")))).sort((a, b) => b - a);
      if (life > before) extended += 1;
      before = life;
      return extended === 2;
    });
  });
  await until(() => isGone("long"));
});
connections.forEach((connection) => connection.disconnect());
finish();
