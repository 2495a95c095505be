"""dramatiq: its queue is one script. Messages, delays, retries, groups, pipelines, limits: `dramatiq_app.py PORT`."""
import threading
import time

import dramatiq
from dramatiq.rate_limits import Barrier, BucketRateLimiter, ConcurrentRateLimiter, RateLimitExceeded, WindowRateLimiter
from dramatiq.results.errors import ResultFailure

import dramatiq_tasks as tasks
from checks import check, end, finish, port, raises, same, start, until, workers

MESSAGES = 300
WAIT_MS = 60_000
connection = tasks.connection
connection.flushall()


def result(message):
    return message.get_result(block=True, timeout=WAIT_MS)


def each_once():
    messages = [tasks.square.send(n) for n in range(MESSAGES)]
    same([result(message) for message in messages], [n * n for n in range(MESSAGES)])
    same(connection.hgetall("done"), {str(n).encode(): b"1" for n in range(MESSAGES)})
    tasks.broker.join("default", timeout=WAIT_MS)


def delays():
    sent = time.time()
    messages = {delay: tasks.now.send_with_options(args=(delay,), delay=delay) for delay in (900, 300, 600)}
    ran = {delay: result(message) - sent for delay, message in messages.items()}
    for delay, after in ran.items():
        assert after >= delay / 1000, f"a delay of {delay} ms lasted {after} s"
    same(sorted(ran, key=ran.get), [300, 600, 900])


def retries():
    same(result(tasks.fails_first.send("stubborn", 3)), 4)
    raises(ResultFailure, "RuntimeError", lambda: result(tasks.fails_first.send("beaten", 99)))
    same(connection.get("tried:beaten"), b"6")


def dead_letters():
    message = tasks.fails.send()
    until("the last attempt", lambda: connection.zcard("dramatiq:default.XQ") == 2)  # with the one beaten above
    same(connection.get("tried:hopeless"), b"3")
    dead = connection.hvals("dramatiq:default.XQ.msgs")
    same(sum(message.message_id.encode() in letter for letter in dead), 1)


def pipes():
    pipe = tasks.plus.message(1, 2) | tasks.plus.message(10) | tasks.plus.message(100)
    pipe.run()
    same(pipe.get_result(block=True, timeout=WAIT_MS), 113)


def groups():
    group = dramatiq.group([tasks.square.message(1000 + n) for n in range(20)])
    group.add_completion_callback(tasks.all_done.message())
    group.run()
    same(list(group.get_results(block=True, timeout=WAIT_MS)), [(1000 + n) ** 2 for n in range(20)])
    until("the callback", lambda: connection.get("callbacks") == b"1")


def keeps_for_later():
    """A queue keeps its messages until a worker for it comes."""
    for n in range(20):
        tasks.notes.send(n)
    with workers(["-m", "dramatiq", "dramatiq_tasks", "--processes", "1", "--threads", "1", "--queues", "narrow", "--skip-logging"]):
        until("all notes", lambda: connection.llen("notes") == 20)
    same(sorted(int(note) for note in connection.lrange("notes", 0, -1)), list(range(20)))


def limits():
    """Mutual exclusion, windows, buckets and barriers, from threads of this process."""
    inside, most, refused = [], [], []
    mutex = ConcurrentRateLimiter(tasks.limits, "mutex", limit=2, ttl=WAIT_MS)

    def one():
        for _ in range(30):
            try:
                with mutex.acquire():
                    inside.append(1)
                    most.append(len(inside))
                    time.sleep(0.001)
                    inside.pop()
            except RateLimitExceeded:
                refused.append(1)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same((max(most) <= 2, len(most) + len(refused)), (True, 240))
    window = WindowRateLimiter(tasks.limits, "window", limit=5, window=3600)
    bucket = BucketRateLimiter(tasks.limits, "bucket", limit=7, bucket=3_600_000)
    for limiter, limit in ((window, 5), (bucket, 7)):
        allowed = 0
        for _ in range(20):
            with limiter.acquire(raise_on_failure=False) as acquired:
                allowed += acquired
        same(allowed, limit)
    barrier = Barrier(tasks.limits, "barrier", ttl=WAIT_MS)
    same(barrier.create(3), True)
    same([barrier.wait(block=False) for _ in range(3)], [False, False, True])


def ends(process):
    same(end(process), 0)
    same([key for key in connection.keys("dramatiq:__acks__.*") if connection.scard(key)], [])
    same(connection.llen("dramatiq:default"), 0)


worker = start("-m", "dramatiq", "dramatiq_tasks", "--processes", "2", "--threads", "4", "--queues", "default", "--skip-logging")
try:
    for run in (each_once, delays, retries, dead_letters, pipes, groups, keeps_for_later, limits):
        check(f"dramatiq: {run.__name__}", run)
    check("dramatiq: ends", lambda: ends(worker))
finally:
    if worker.poll() is None:
        end(worker)
finish()
