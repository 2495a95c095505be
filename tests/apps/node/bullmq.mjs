// BullMQ: queues with workers, delays, priorities, schedulers, flows, and what goes wrong with them: `node bullmq.mjs PORT`.
import { FlowProducer, Queue, QueueEvents, UnrecoverableError, Worker } from "bullmq";
import Redis from "ioredis";
import { check, fails, finish, port, same } from "./checks.mjs";

const JOBS = 1000;
const WORKERS = 50;
const connection = { host: "127.0.0.1", port };
const client = new Redis(connection);
await client.flushall();

/** Waits until it is true, leaving the event loop to the workers meanwhile. */
async function until(what, condition, seconds = 30) {
  const deadline = Date.now() + seconds * 1000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`${what}: not within ${seconds} s`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** A queue with workers while `run` runs. */
async function queued(name, process, options, run) {
  const queue = new Queue(name, { connection });
  const events = new QueueEvents(name, { connection });
  await events.waitUntilReady();
  const workers = Array.from({ length: options.workers ?? 1 }, () => new Worker(name, process, { connection, ...options }));
  workers.forEach((worker) => worker.on("error", (error) => console.log(`worker of ${name}: ${error.message}`)));
  try {
    await run(queue, events, workers);
  } finally {
    await Promise.all(workers.map((worker) => worker.close()));
    await events.close();
    await queue.obliterate({ force: true });
    await queue.close();
  }
  // Nothing stays but what says that a queue was there; a limit's key goes when its time is over.
  await until("nothing is left", async () => {
    const keys = await client.keys(`bull:${name}:*`);
    return keys.every((key) => /:(meta|events|stalled-check)$/.test(key));
  });
}

await check(`bullmq: ${JOBS} jobs of ${WORKERS} workers, each done exactly once`, async () => {
  const done = new Map();
  const process = async (job) => {
    done.set(job.data.n, (done.get(job.data.n) ?? 0) + 1);
    await job.updateProgress(50);
    return job.data.n * job.data.n;
  };
  await queued("many", process, { workers: WORKERS }, async (queue, events) => {
    let completed = 0;
    events.on("completed", () => (completed += 1));
    const jobs = [];
    for (let n = 0; n < JOBS; n += 100) {
      jobs.push(...(await queue.addBulk(Array.from({ length: 100 }, (_, k) => ({ name: "square", data: { n: n + k } })))));
    }
    await until("all jobs", () => completed === JOBS, 60);
    same(done.size, JOBS);
    same([...done.values()].every((times) => times === 1), true);
    same(await queue.getJobCounts("completed", "failed", "active", "wait"), { completed: JOBS, failed: 0, active: 0, wait: 0 });
    const results = await queue.getCompleted(0, -1);
    same(results.map((job) => job.returnvalue).sort((a, b) => a - b), Array.from({ length: JOBS }, (_, n) => n * n));
    same(results.every((job) => job.progress === 50 && job.attemptsMade === 1), true);
    same(new Set(jobs.map((job) => job.id)).size, JOBS);
  });
});
await check("bullmq: first in, first out, with one worker", async () => {
  const order = [];
  await queued("fifo", async (job) => order.push(job.data), {}, async (queue, events) => {
    const jobs = await queue.addBulk(Array.from({ length: 100 }, (_, n) => ({ name: "in order", data: n })));
    await jobs[99].waitUntilFinished(events, 30000);
    same(order, Array.from({ length: 100 }, (_, n) => n));
  });
});
await check("bullmq: delayed jobs run in the order of their times and never before", async () => {
  const order = [];
  const process = async (job) => order.push([job.data, Date.now() - job.timestamp]);
  await queued("delayed", process, { workers: 3 }, async (queue, events) => {
    const delays = [900, 300, 600, 1];
    const jobs = await Promise.all(delays.map((delay) => queue.add("later", delay, { delay })));
    const far = await queue.add("later", 5, { delay: 3600000 });
    same(await queue.getDelayedCount() >= 1, true);
    await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 30000)));
    same(order.map(([delay]) => delay), [1, 300, 600, 900]);
    order.forEach(([delay, after]) => same(after >= delay, true));
    same(await far.isDelayed(), true);
    await far.promote();
    await far.waitUntilFinished(events, 30000);
    const moved = await queue.add("later", 6, { delay: 3600000 });
    await moved.changeDelay(10);
    await moved.waitUntilFinished(events, 30000);
  });
});
await check("bullmq: priorities, last in first out, and a change of mind", async () => {
  const order = [];
  await queued("priority", async (job) => order.push(job.data), {}, async (queue, events) => {
    await queue.pause();
    same(await queue.isPaused(), true);
    for (const priority of [7, 3, 9, 1, 3, 200]) await queue.add("p", `p${priority}`, { priority });
    await queue.add("p", "plain");
    await queue.add("p", "newest", { lifo: true });
    const changed = await queue.add("p", "changed", { priority: 1000 });
    await changed.changePriority({ priority: 2 });
    const last = await queue.add("p", "last", { priority: 2000 });
    same(await queue.getCountsPerPriority([3, 9]), { 3: 2, 9: 1 });
    await queue.resume();
    await last.waitUntilFinished(events, 30000);
    same(order, ["newest", "plain", "p1", "changed", "p3", "p3", "p7", "p9", "p200", "last"]);
  });
});
await check("bullmq: job schedulers run as often as they should, and can be removed", async () => {
  const runs = { every: [], cron: [] };
  await queued("repeated", async (job) => runs[job.name].push(job.timestamp + (job.opts.delay ?? 0)), {}, async (queue) => {
    await queue.upsertJobScheduler("ticks", { every: 200, limit: 4 }, { name: "every", data: {} });
    await queue.upsertJobScheduler("seconds", { pattern: "* * * * * *" }, { name: "cron", data: {} });
    same((await queue.getJobSchedulers()).map((each) => each.key).sort(), ["seconds", "ticks"]);
    await until("runs", () => runs.every.length === 4 && runs.cron.length >= 2);
    same(await queue.removeJobScheduler("seconds"), true);
    same(await queue.removeJobScheduler("none"), false);
    same((await queue.getJobSchedulers()).map((each) => each.key).includes("seconds"), false);
    same(runs.every.length, 4);
    same(new Set(runs.cron.map((time) => Math.round(time / 1000))).size, runs.cron.length);
  });
});
await check("bullmq: flows run children before parents, whose values they see", async () => {
  const order = [];
  const process = async (job) => {
    order.push(job.name);
    const values = Object.values(await job.getChildrenValues());
    return values.reduce((sum, value) => sum + value, job.data.value ?? 0);
  };
  const flows = new FlowProducer({ connection });
  await queued("flows", process, { workers: 5 }, async (queue, events) => {
    const leaf = (branch, n) => ({ name: `leaf ${branch} ${n}`, queueName: "flows", data: { value: n } });
    const branch = (b) => ({ name: `branch ${b}`, queueName: "flows", data: {}, children: Array.from({ length: 10 }, (_, n) => leaf(b, n)) });
    const tree = await flows.add({ name: "root", queueName: "flows", data: { value: 1 }, children: [branch(1), branch(2), branch(3)] });
    same(await tree.job.waitUntilFinished(events, 30000), 136);
    same(order.length, 34);
    same(order[33], "root");
    for (const b of [1, 2, 3]) {
      const leaves = order.map((name, at) => (name.startsWith(`leaf ${b} `) ? at : -1));
      same(Math.max(...leaves) < order.indexOf(`branch ${b}`), true);
    }
    const counts = await tree.job.getDependenciesCount();
    same([counts.processed, counts.unprocessed], [3, 0]);
  });
  await queued("broken", async () => { throw new Error("a child fails"); }, {}, async (queue, events) => {
    const child = { name: "child", queueName: "broken", data: {}, opts: { failParentOnFailure: true } };
    const tree = await flows.add({ name: "parent", queueName: "broken", data: {}, children: [child] });
    await fails(tree.job.waitUntilFinished(events, 30000), "failed");
    same(await tree.job.getState(), "failed");
  });
  await flows.close();
});
await check("bullmq: failures are tried again with a backoff, and kept", async () => {
  const attempts = [];
  const process = async (job) => {
    attempts.push(job.name);
    await job.log(`attempt ${job.attemptsMade}`);
    if (job.name === "hopeless") throw new UnrecoverableError("no use");
    if (job.attemptsMade < 2) throw new Error(`attempt ${job.attemptsMade}`);
    return "at last";
  };
  await queued("retried", process, {}, async (queue, events) => {
    const job = await queue.add("stubborn", {}, { attempts: 5, backoff: { type: "exponential", delay: 20 } });
    same(await job.waitUntilFinished(events, 30000), "at last");
    same((await queue.getJobLogs(job.id)).logs, ["attempt 0", "attempt 1", "attempt 2"]);
    same((await queue.getJob(job.id)).attemptsMade, 3);
    const hopeless = await queue.add("hopeless", {}, { attempts: 5 });
    await fails(hopeless.waitUntilFinished(events, 30000), "no use");
    const [failed] = await queue.getFailed();
    same([failed.id, failed.failedReason, failed.attemptsMade], [hopeless.id, "no use", 1]);
    await failed.retry();
    await until("the retry", () => attempts.length === 5);
    await until("it failed again", async () => (await queue.getFailedCount()) === 1);
  });
});
await check("bullmq: a job whose worker is gone is done by another", async () => {
  const began = [];
  const quick = { lockDuration: 400, stalledInterval: 200, drainDelay: 1 };
  await queued("stalled", async () => "saved", { ...quick, autorun: false }, async (queue, events, [rescuer]) => {
    const lost = new Worker("stalled", async (job) => { began.push(job.id); await new Promise(() => {}); }, { connection, lockDuration: 400, skipLockRenewal: true, skipStalledCheck: true });
    let stalled = 0;
    events.on("stalled", () => (stalled += 1));
    const job = await queue.add("once", {});
    await until("the first worker begins", () => began.length === 1);
    await lost.close(true);
    rescuer.run();
    same(await job.waitUntilFinished(events, 30000), "saved");
    same(stalled, 1);
  });
});
await check("bullmq: a rate limit holds over all workers", async () => {
  const times = [];
  const limiter = { max: 5, duration: 400 };
  await queued("limited", async () => times.push(Date.now()), { workers: 5, limiter }, async (queue) => {
    await queue.addBulk(Array.from({ length: 20 }, () => ({ name: "limited", data: {} })));
    await until("all jobs", () => times.length === 20);
    // 20 jobs, 5 in 400 ms: three full pauses lie between the first and the last.
    same(times[19] - times[0] >= 1000, true);
  });
});
await check("bullmq: deduplication, removal, cleaning, draining, paging", async () => {
  await queued("kept", async (job) => job.data, { autorun: false }, async (queue, events, [worker]) => {
    const jobs = await Promise.all(Array.from({ length: 10 }, () => queue.add("same", 1, { deduplication: { id: "one" } })));
    same(new Set(jobs.map((job) => job.id)).size, 1);
    await queue.add("again", 1, { jobId: "mine" });
    await queue.add("again", 2, { jobId: "mine" });
    same((await queue.getJob("mine")).data, 1);
    await queue.addBulk(Array.from({ length: 50 }, (_, n) => ({ name: "page", data: n })));
    same(await queue.count(), 52);
    same((await queue.getWaiting(10, 19)).length, 10);
    same(await queue.remove("mine"), 1);
    same(await queue.getJob("mine"), undefined);
    worker.run();
    await until("all jobs", async () => (await queue.getCompletedCount()) === 51);
    same((await queue.clean(0, 20, "completed")).length, 20);
    same(await queue.getCompletedCount(), 31);
    await worker.pause();
    await queue.addBulk(Array.from({ length: 30 }, (_, n) => ({ name: "drained", data: n, opts: { delay: n % 2 ? 100000 : 0 } })));
    await queue.drain(true);
    same(await queue.getJobCounts("wait", "delayed"), { wait: 0, delayed: 0 });
  });
});
client.disconnect();
finish();
