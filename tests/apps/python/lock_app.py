"""redis-py's Lock: threads of several processes change what it protects, and what its owner and others may do: `lock_app.py PORT`."""
import sys
import threading
import time

from redis import Redis
from redis.exceptions import LockError, LockNotOwnedError

from checks import check, finish, port, raises, same, start, until

PROCESSES, THREADS, TIMES = 3, 5, 20


def increments():
    """What one process does: threads that read and write, which only the lock makes one step."""

    def one():
        connection = Redis(port=port)
        for _ in range(TIMES):
            with connection.lock("protected", timeout=60, sleep=0.002):
                value = int(connection.get("value"))
                connection.set("value", value + 1)

    threads = [threading.Thread(target=one) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if sys.argv[1] == "increments":
    increments()
    sys.exit()

connection = Redis(port=port)
connection.flushall()


def one_at_a_time():
    connection.set("value", 0)
    processes = [start(__file__, "increments") for _ in range(PROCESSES)]
    same([process.wait(90) for process in processes], [0] * PROCESSES)
    same(int(connection.get("value")), PROCESSES * THREADS * TIMES)
    same(connection.exists("protected"), 0)


def belongs_to_its_owner():
    lock, other = connection.lock("owned", timeout=60), connection.lock("owned", timeout=60)
    same(lock.acquire(), True)
    same((lock.locked(), lock.owned(), other.locked(), other.owned()), (True, True, True, False))
    same(other.acquire(blocking=False), False)
    same(other.acquire(blocking_timeout=0.05), False)
    raises(LockError, "unlocked", other.release)
    for call in (lambda: other.extend(10), other.reacquire, other.release):
        other.local.token = b"guessed"
        raises(LockNotOwnedError, "no longer owned", call)
    same(lock.owned(), True)
    lock.release()
    same(connection.exists("owned"), 0)


def extends():
    lock = connection.lock("extended", timeout=60)
    lock.acquire()
    same(lock.extend(100), True)
    same(100_000 < connection.pttl("extended") <= 160_000, True)
    same(lock.extend(30, replace_ttl=True), True)
    same(0 < connection.pttl("extended") <= 30_000, True)
    same(lock.reacquire(), True)
    same(30_000 < connection.pttl("extended") <= 60_000, True)
    lock.release()


def expires():
    lock, next = connection.lock("short", timeout=0.05), connection.lock("short", timeout=60, sleep=0.002)
    lock.acquire()
    same(next.acquire(blocking_timeout=30), True)
    raises(LockNotOwnedError, "no longer owned", lock.release)
    same(next.owned(), True)
    next.release()


def survives_a_flush_of_scripts():
    lock = connection.lock("flushed", timeout=60)
    for _ in range(3):
        lock.acquire()
        connection.script_flush()
        lock.release()
    same(connection.exists("flushed"), 0)


def waits():
    """Whoever waits gets it when it is released."""
    lock, got = connection.lock("waited", timeout=60), threading.Event()
    lock.acquire()

    def second():
        with Redis(port=port).lock("waited", timeout=60, sleep=0.002, blocking_timeout=60):
            got.set()

    thread = threading.Thread(target=second)
    thread.start()
    time.sleep(0.05)  # gives it the time to go wrong in
    same(got.is_set(), False)
    lock.release()
    until("the second has it", got.is_set)
    thread.join()


for run in (one_at_a_time, belongs_to_its_owner, extends, expires, survives_a_flush_of_scripts, waits):
    check(f"redis-py's lock: {run.__name__}", run)
finish()
