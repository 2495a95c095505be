"""Smoke test of redis-py or valkey-py: `smoke.py LIBRARY PORT`. The two have the same interface."""
import importlib
import os
import sys
import time

import data_types

library_name, port = sys.argv[1], int(sys.argv[2])
library = importlib.import_module(library_name)
Client = library.Redis if library_name == "redis" else library.Valkey
failed = False


def check(name, run):
    global failed
    try:
        run()
        print(f"ok {name}")
    except Exception as error:  # every failure is a line, whatever its kind
        failed = True
        print(f"not ok {name}: {type(error).__name__}: {error}")


def same(got, expected):
    assert got == expected, f"expected {expected!r}, got {got!r}"


def suite(protocol):
    client = Client(port=port, protocol=protocol, socket_timeout=10)
    binary = bytes(range(256)) * 300

    def connects():
        same(client.ping(), True)
        client.flushall()
        same(client.client_setname("smoke"), True)
        same(client.client_getname(), "smoke" if isinstance(client.client_getname(), str) else b"smoke")

    def strings():
        same(client.set("a", "1"), True)
        same(client.get("a"), b"1")
        same(client.set("a", "2", nx=True), None)
        same(client.set("a", "2", get=True), b"1")
        same(client.incrby("a", 40), 42)
        same(client.incrbyfloat("f", 1.5), 1.5)
        same(client.mset({"x": 1, "y": 2}), True)
        same(client.mget("x", "none", "y"), [b"1", None, b"2"])
        same(client.append("x", "23"), 3)
        same(client.getrange("x", 1, -1), b"23")
        same(client.type("x"), b"string")
        same(client.delete("x", "y", "none"), 2)

    def pipelines():
        pipe = client.pipeline(transaction=False)
        for n in range(1000):
            pipe.set(f"p:{n}", n)
            pipe.get(f"p:{n}")
        replies = pipe.execute()
        same(replies[1::2], [str(n).encode() for n in range(1000)])

    def transactions():
        pipe = client.pipeline(transaction=True)
        same(pipe.set("t", 1).incr("t").get("t").execute(), [True, 2, b"2"])

    def watches():
        client.set("w", 1)
        with client.pipeline() as pipe:
            pipe.watch("w")
            value = int(pipe.get("w"))
            client.set("w", 100)
            pipe.multi()
            pipe.set("w", value + 1)
            try:
                pipe.execute()
                raise AssertionError("EXEC went through")
            except library.WatchError:
                pass
        same(client.get("w"), b"100")

    def scans():
        client.flushall()
        expected = {f"scan:{n}".encode() for n in range(2000)}
        client.mset({key: 1 for key in expected})
        same(set(client.scan_iter(match="scan:*", count=100)), expected)
        same(client.dbsize(), 2000)

    def expires():
        client.set("e", 1, px=30)
        assert 0 < client.pttl("e") <= 30
        same(client.expire("none", 10), False)
        deadline = time.monotonic() + 5
        while client.exists("e"):
            assert time.monotonic() < deadline, "it does not expire"
        client.set("e", 1, ex=100)
        assert 98 <= client.ttl("e") <= 100
        same(client.persist("e"), True)
        same(client.ttl("e"), -1)

    def binaries():
        client.set(b"\x00\xff", binary)
        same(client.get(b"\x00\xff"), binary)
        same(client.strlen(b"\x00\xff"), len(binary))

    def errors():
        client.set("word", "x")
        for call in (lambda: client.incr("word"), lambda: client.execute_command("NO-SUCH-COMMAND"), lambda: client.execute_command("GET")):
            try:
                call()
                raise AssertionError("no exception")
            except library.ResponseError:
                pass
        same(client.get("word"), b"x")

    def describes():
        assert "redis_version" in client.info()
        assert client.config_get("maxmemory") in ({"maxmemory": "0"}, {b"maxmemory": b"0"})
        assert client.command_count() > 50

    for run in (connects, strings, pipelines, transactions, watches, scans, expires, binaries, errors, describes):
        check(f"{library_name} RESP{protocol}: {run.__name__}", run)
    for run in data_types.suite(lambda: Client(port=port, protocol=protocol, socket_timeout=60)):
        check(f"{library_name} RESP{protocol}: {run.__name__}", run)
    client.close()


def authenticates():
    client = Client(port=port)
    client.config_set("requirepass", "secret")
    try:
        for protocol in (2, 3):
            same(Client(port=port, password="secret", protocol=protocol).ping(), True)
            try:
                Client(port=port, password="wrong", protocol=protocol).ping()
                raise AssertionError("a wrong password was accepted")
            except (library.AuthenticationError, library.ResponseError):
                pass
            try:
                Client(port=port, protocol=protocol).ping()
                raise AssertionError("no password was asked for")
            except (library.AuthenticationError, library.ResponseError):
                pass
    finally:
        client.config_set("requirepass", "")


suite(2)
suite(3)
check(f"{library_name}: authenticates", authenticates)
sys.exit(failed)
