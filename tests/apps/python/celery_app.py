"""Celery with a result backend: results, groups, chords, retries, times, commands to workers: `celery_app.py PORT`."""
import time

from celery import chain, chord, group
from celery.result import AsyncResult

import celery_tasks as tasks
from checks import check, finish, port, raises, same, start, until, workers

TASKS = 200
WAIT = 60
tasks.connection.flushall()


def worker(name, *words):
    return ["-m", "celery", "-A", "celery_tasks", "worker", "--loglevel", "WARNING", "--hostname", f"{name}@test", *words]


def answers():
    """Commands go to all workers by a channel, and their replies come by a list."""
    until("both workers", lambda: len(tasks.app.control.ping(timeout=0.5)) == 2)
    same(sorted(tasks.app.control.inspect(timeout=10, limit=2).active_queues()), ["first@test", "second@test"])
    same(sorted(tasks.app.control.inspect(timeout=10, limit=2).registered())[0], "first@test")


def each_once():
    results = [tasks.times.delay(n, 7) for n in range(TASKS)]
    same([result.get(timeout=WAIT) for result in results], [n * 7 for n in range(TASKS)])
    same(tasks.connection.hgetall("done"), {f"{n}x7".encode(): b"1" for n in range(TASKS)})
    same({AsyncResult(result.id, app=tasks.app).state for result in results}, {"SUCCESS"})
    results[0].forget()
    same(AsyncResult(results[0].id, app=tasks.app).state, "PENDING")


def fails():
    result = tasks.fails.delay()
    raises(ValueError, "on purpose", lambda: result.get(timeout=WAIT))
    same((result.state, "ValueError" in result.traceback), ("FAILURE", True))


def retries():
    same(tasks.fails_first.delay(3).get(timeout=WAIT), 3)


def waits_for_its_time():
    sent = time.time()
    ran = {delay: tasks.now.apply_async(countdown=delay) for delay in (1.5, 0.5)}
    for delay, result in ran.items():
        after = result.get(timeout=WAIT) - sent
        assert after >= delay, f"{delay} s later was {after} s later"


def chains():
    same(chain(tasks.plus.s(1, 2), tasks.plus.s(10), tasks.plus.s(100))().get(timeout=WAIT), 113)


def groups():
    result = group(tasks.times.s(n, 1000) for n in range(50))()
    same(result.get(timeout=WAIT), [n * 1000 for n in range(50)])
    same(result.successful(), True)


def chords():
    """The last of many runs what comes after all of them, once; what counts them is a transaction or a script."""
    results = [chord([tasks.times.s(n, 100 + many) for n in range(many)], tasks.total.s())() for many in (1, 2, 40, 60)]
    same([result.get(timeout=WAIT) for result in results], [sum(range(many)) * (100 + many) for many in (1, 2, 40, 60)])
    same(tasks.connection.get("totals"), b"4")
    nested = chain(group(tasks.plus.s(n, n) for n in range(10)), tasks.total.s(), tasks.plus.s(1))()
    same(nested.get(timeout=WAIT), 91)
    broken = chord([tasks.times.s(1, 999), tasks.fails.s()], tasks.total.s())()
    raises(Exception, "on purpose", lambda: broken.get(timeout=WAIT))


def tells_states():
    result = tasks.lasts.delay("told")
    until("the state", lambda: result.state == "UNDER WAY")
    same(result.info, {"name": "told"})
    tasks.connection.set("go:told", 1)
    same(result.get(timeout=WAIT), "told")


def revokes():
    result = tasks.lasts.apply_async(("revoked",), queue="forked")  # only processes can be stopped
    until("the start", lambda: tasks.connection.exists("began:revoked"))
    result.revoke(terminate=True)
    until("the end", lambda: result.state == "REVOKED")
    later = tasks.note.apply_async(("revoked",), countdown=2)
    later.revoke()
    until("revoked", lambda: later.state == "REVOKED")
    same(tasks.connection.exists("notes"), 0)


def priorities():
    """One worker that begins when all tasks are there runs the urgent first (0 is the most urgent)."""
    order = [5, 9, 0, 3, 7, 1]
    for priority in order:
        tasks.note.apply_async((priority,), queue="narrow", priority=priority)
    with workers(worker("narrow", "--queues", "narrow", "--pool", "solo")):
        until("all notes", lambda: tasks.connection.llen("notes") == len(order))
    same([int(note) for note in tasks.connection.lrange("notes", 0, -1)], sorted(order))


def shuts_down(running):
    tasks.app.control.shutdown()
    same([process.wait(WAIT) for process in running], [0] * len(running))
    with tasks.app.connection_for_read() as broker:
        same(broker.default_channel.client.llen("celery"), 0)
        same(broker.default_channel.client.hlen("unacked"), 0)


running = [start(*worker("first", "--concurrency", "2", "--queues", "celery,forked")), start(*worker("second", "--pool", "threads", "--concurrency", "4"))]
try:
    for run in (answers, each_once, fails, retries, waits_for_its_time, chains, groups, chords, tells_states, revokes, priorities):
        check(f"celery: {run.__name__}", run)
    check("celery: shuts_down", lambda: shuts_down(running))
finally:
    for process in running:
        if process.poll() is None:
            process.terminate()
            process.wait()
finish()
