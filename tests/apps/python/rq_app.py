"""RQ: jobs, results, failures, retries, dependencies, schedules, commands to workers: `rq_app.py PORT`."""
import datetime
import time

from redis import Redis
from rq import Queue, Retry, Worker
from rq.command import send_shutdown_command, send_stop_job_command
from rq.group import Group
from rq.job import Job
from rq.registry import FailedJobRegistry, ScheduledJobRegistry

import rq_tasks
from checks import check, end, finish, port, same, start, until

connection = Redis(port=port)
connection.flushall()
queue = Queue(connection=connection)
high = Queue("high", connection=connection)
long = Queue("long", connection=connection)  # only the worker that runs its jobs in processes can stop them
JOBS = 120


def ended(job):
    until(f"job {job.id}", lambda: job.get_status(refresh=True) in ("finished", "failed", "stopped"))
    return job.get_status()


def each_once():
    jobs = queue.enqueue_many([Queue.prepare_data(rq_tasks.times, (n, 7)) for n in range(JOBS)])
    same([ended(job) for job in jobs], ["finished"] * JOBS)
    same([job.latest_result().return_value for job in jobs], [n * 7 for n in range(JOBS)])
    same(connection.hgetall("done"), {f"{n}x7".encode(): b"1" for n in range(JOBS)})
    same(queue.count, 0)


def fails():
    job = queue.enqueue(rq_tasks.fails)
    same(ended(job), "failed")
    assert "ValueError: on purpose" in job.latest_result().exc_string
    same(job.id in FailedJobRegistry(queue=queue), True)
    FailedJobRegistry(queue=queue).remove(job, delete_job=True)
    same(Job.exists(job.id, connection=connection), False)


def retries():
    job = queue.enqueue(rq_tasks.fails_first, 2, retry=Retry(max=3))
    same(ended(job), "finished")
    same(job.latest_result().return_value, 3)
    hopeless = queue.enqueue(rq_tasks.fails_first, 5, retry=Retry(max=2))
    until("the last attempt", lambda: hopeless.id in FailedJobRegistry(queue=queue))
    same(connection.get(f"tried:{hopeless.id}"), b"3")


def depends():
    first = [queue.enqueue(rq_tasks.note, f"first {n}") for n in range(3)]
    second = queue.enqueue(rq_tasks.note, "second", depends_on=first)
    third = high.enqueue(rq_tasks.note, "third", depends_on=second)
    same(ended(third), "finished")
    notes = connection.lrange("notes", 0, -1)
    same((sorted(notes[:3]), notes[3:]), ([b"first 0", b"first 1", b"first 2"], [b"second", b"third"]))


def remembers():
    job = queue.enqueue(rq_tasks.remembers)
    same(ended(job), "finished")
    same(job.get_meta(), {"progress": 100})
    job.refresh()
    assert job.started_at <= job.ended_at


def schedules():
    before = time.time()
    job = queue.enqueue_in(datetime.timedelta(seconds=2), rq_tasks.remembers)
    same(job.id in ScheduledJobRegistry(queue=queue), True)
    same(ended(job), "finished")
    # Its time is kept in whole seconds.
    assert job.latest_result().return_value - before >= 1, "it ran before its time"
    same(job.id in ScheduledJobRegistry(queue=queue), False)


def groups():
    group = Group.create(connection=connection)
    jobs = group.enqueue_many(queue, [Queue.prepare_data(rq_tasks.times, (n, 1000)) for n in range(10)])
    same([ended(job) for job in jobs], ["finished"] * 10)
    same(sorted(job.latest_result().return_value for job in group.get_jobs()), [n * 1000 for n in range(10)])


def cancels():
    before = queue.enqueue(rq_tasks.fails)
    blocked = queue.enqueue(rq_tasks.lasts, 600, job_id="cancelled", depends_on=before)
    blocked.cancel()
    same(ended(before), "failed")
    same(blocked.get_status(refresh=True), "canceled")
    same(connection.exists("began:cancelled"), 0)


def stops():
    job = long.enqueue(rq_tasks.lasts, 600)
    until("the start", lambda: connection.exists(f"began:{job.id}"))
    send_stop_job_command(connection, job.id)
    same(ended(job), "stopped")


def empties():
    """Queue.empty is a script."""
    parked = Queue("parked", connection=connection)
    parked.enqueue_many([Queue.prepare_data(rq_tasks.times, (n, 8)) for n in range(50)])
    same(parked.count, 50)
    same(parked.empty(), 50)
    same((parked.count, len(list(connection.scan_iter("rq:queue:parked")))), (0, 0))


def shuts_down(running):
    names = [worker.name for worker in Worker.all(connection=connection)]
    same(len(names), len(running))
    for name in names:
        send_shutdown_command(connection, name)
    same([process.wait(20) for process in running], [0] * len(running))
    same(Worker.all(connection=connection), [])


worker = ["-m", "rq.cli", "worker", "--url", f"redis://127.0.0.1:{port}", "--with-scheduler", "--logging_level", "WARNING"]
simple = [*worker, "--worker-class", "rq.SimpleWorker", "high", "default"]
running = [start(*simple), start(*simple), start(*worker, "long", "high", "default")]
try:
    for run in (each_once, fails, retries, depends, remembers, schedules, groups, cancels, stops, empties):
        check(f"rq: {run.__name__}", run)
    check("rq: shuts_down", lambda: shuts_down(running))
finally:
    for process in running:
        if process.poll() is None:
            end(process)
finish()
