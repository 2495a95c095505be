"""The actors that dramatiq's workers run, and what both sides share; see `dramatiq_app.py`."""
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import RedisBackend as Limits
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from redis import Redis

from checks import port

connection = Redis(port=port)
broker = RedisBroker(port=port)
broker.add_middleware(Results(backend=RedisBackend(port=port)))
limits = Limits(port=port)
broker.add_middleware(GroupCallbacks(limits))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def square(n):
    connection.hincrby("done", n)
    return n * n


@dramatiq.actor(store_results=True)
def plus(total, n):
    return total + n


@dramatiq.actor(store_results=True)
def now(delay_ms):
    return time.time()


@dramatiq.actor(store_results=True, max_retries=5, min_backoff=10, max_backoff=50)
def fails_first(name, often):
    tried = connection.incr(f"tried:{name}")
    if tried <= often:
        raise RuntimeError(f"attempt {tried}")
    return tried


@dramatiq.actor(max_retries=2, min_backoff=10, max_backoff=50)
def fails():
    connection.incr("tried:hopeless")
    raise ValueError("on purpose")


@dramatiq.actor
def all_done():
    connection.incr("callbacks")


@dramatiq.actor(queue_name="narrow", max_retries=0)
def notes(name):
    connection.rpush("notes", name)
