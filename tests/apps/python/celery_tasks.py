"""The tasks that Celery's workers run, and what both sides share; see `celery_app.py`."""
import time

from celery import Celery
from redis import Redis

from checks import port

connection = Redis(port=port, db=2)
app = Celery("tasks", broker=f"redis://127.0.0.1:{port}/0", backend=f"redis://127.0.0.1:{port}/1")
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"priority_steps": list(range(10)), "queue_order_strategy": "priority", "visibility_timeout": 3600},
    result_extended=True,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
)


@app.task
def times(a, b):
    connection.hincrby("done", f"{a}x{b}")
    return a * b


@app.task
def total(numbers):
    connection.incr("totals")
    return sum(numbers)


@app.task
def plus(a, b):
    return a + b


@app.task
def now():
    return time.time()


@app.task
def fails():
    raise ValueError("on purpose")


@app.task(bind=True, max_retries=5, default_retry_delay=0)
def fails_first(self, often):
    if self.request.retries < often:
        raise self.retry()
    return self.request.retries


@app.task(bind=True)
def lasts(self, name):
    self.update_state(state="UNDER WAY", meta={"name": name})
    connection.set(f"began:{name}", 1)
    while not connection.exists(f"go:{name}"):
        time.sleep(0.01)
    return name


@app.task
def note(name):
    connection.rpush("notes", name)
