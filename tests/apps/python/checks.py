"""What the Python programs share: one line per check, comparing, waiting, and worker processes that end with their program."""
import contextlib
import os
import signal
import subprocess
import sys
import time

port = int(os.environ.get("APP_PORT") or sys.argv[-1])
here = os.path.dirname(os.path.abspath(__file__))
failed = False


def check(name, run):
    global failed
    try:
        run()
        print(f"ok {name}", flush=True)
    except BaseException as error:  # every failure is a line, whatever its kind
        failed = True
        print(f"not ok {name}: {type(error).__name__}: {error}".replace("\n", " "), flush=True)


def same(got, expected):
    assert got == expected, f"expected {expected!r}, got {got!r}"


def until(what, condition, seconds=60):
    """Waits until `condition` is true; what it returned."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.01)


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), f"expected {text!r} in {error!r}"
        return
    raise AssertionError(f"no {kind.__name__}")


def start(*words):
    """A process of Python that finds the modules of this folder and the port."""
    environment = os.environ | {"PYTHONPATH": here, "APP_PORT": str(port)}
    return subprocess.Popen([sys.executable, *words], env=environment, stdout=sys.stderr)


def end(process, seconds=60):
    """Asks a process to end, as an operator would; its exit code."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise AssertionError("the process did not end when it was told to") from None


@contextlib.contextmanager
def workers(*commands):
    """These processes while the block runs."""
    running = [start(*command) for command in commands]
    try:
        yield running
    finally:
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in running:
            end(process)


def finish():
    sys.exit(1 if failed else 0)
