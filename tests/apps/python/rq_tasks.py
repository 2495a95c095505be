"""The functions that RQ's workers run; see `rq_app.py`."""
import time

from rq import get_current_job


def times(a, b):
    get_current_job().connection.hincrby("done", f"{a}x{b}")
    return a * b


def note(name):
    get_current_job().connection.rpush("notes", name)
    return name


def fails():
    raise ValueError("on purpose")


def fails_first(often):
    """Fails until it was tried more than `often` times."""
    tried = get_current_job().connection.incr(f"tried:{get_current_job().id}")
    if tried <= often:
        raise RuntimeError(f"attempt {tried}")
    return tried


def lasts(seconds):
    get_current_job().connection.set(f"began:{get_current_job().id}", 1)
    time.sleep(seconds)


def remembers():
    job = get_current_job()
    job.meta["progress"] = 100
    job.save_meta()
    return time.time()
