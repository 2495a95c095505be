// How many jobs of BullMQ are done in a second, from the first that is added to the last that is done: `node bullmq-speed.mjs JOBS PORT`.
// Two processes with a worker of 50 jobs at a time each, and this one, which adds. Run by `cargo xtask bench --only bullmq`.
import { fork } from "node:child_process";
import { Queue, Worker } from "bullmq";

const [jobs, port] = process.argv.slice(2).map(Number);
const connection = { host: "127.0.0.1", port };

if (process.send) {
  const worker = new Worker("speed", async (job) => job.data.n, { connection, concurrency: 50 });
  await worker.waitUntilReady();
  let done = 0;
  worker.on("completed", () => process.send((done += 1)));
  process.on("message", async () => {
    await worker.close();
    process.disconnect();
  });
  process.send(0);
} else {
  const queue = new Queue("speed", { connection });
  await queue.waitUntilReady();
  const children = [fork(process.argv[1], process.argv.slice(2)), fork(process.argv[1], process.argv.slice(2))];
  const done = [0, 0];
  let [ready, began] = [0, 0];
  const ended = new Promise((resolve) => {
    children.forEach((child, n) => child.on("message", (count) => {
      if (count === 0) ready += 1;
      done[n] = count;
      if (done[0] + done[1] === jobs) resolve();
    }));
  });
  while (ready < 2) await new Promise((resolve) => setTimeout(resolve, 10));
  began = process.hrtime.bigint();
  for (let n = 0; n < jobs; n += 100) {
    await queue.addBulk(Array.from({ length: Math.min(100, jobs - n) }, (_, k) => ({ name: "speed", data: { n: n + k } })));
  }
  await ended;
  const seconds = Number(process.hrtime.bigint() - began) / 1e9;
  const counts = await queue.getJobCounts("completed", "failed", "wait", "active");
  if (counts.completed !== jobs || counts.failed + counts.wait + counts.active !== 0) throw new Error(JSON.stringify(counts));
  console.log(`jobs/s ${jobs / seconds}`);
  children.forEach((child) => child.send("end"));
  await queue.close();
}
