"""The data types and channels in the words of redis-py and valkey-py; run by `smoke.py`."""
import threading
import time


def same(got, expected):
    assert got == expected, f"expected {expected!r}, got {got!r}"


def until(what, condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not in time"


def pairs(reply):
    """Members with their numbers, which come as tuples or lists depending on protocol and library."""
    return [(member, float(number)) for member, number in reply]


def entries(reply):
    """Entries of one stream out of the reply of XREAD, which is a map in one protocol and a list of pairs in the other."""
    [(_, found)] = reply.items() if isinstance(reply, dict) else reply
    while len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    return [(id, dict(fields)) for id, fields in found]


def suite(connect):
    """Names and functions of the checks, for a function that makes a client."""
    client = connect()

    def lists():
        same(client.rpush("l", "b", "c"), 2)
        same(client.lpush("l", "a"), 3)
        same(client.lrange("l", 0, -1), [b"a", b"b", b"c"])
        same(client.linsert("l", "before", "c", "x"), 4)
        same(client.lpos("l", "x"), 2)
        same(client.lrem("l", 0, "x"), 1)
        same(client.lmove("l", "m", "LEFT", "RIGHT"), b"a")
        same(client.lpop("l", 5), [b"b", b"c"])
        same(client.lpop("l"), None)

    def blocking_pops():
        got = []
        waiting = connect()
        thread = threading.Thread(target=lambda: got.append(waiting.blpop(["q1", "q2"], timeout=30)))
        thread.start()
        until("it waits", lambda: client.info("clients")["blocked_clients"] == 1)
        client.rpush("q2", "x")
        thread.join(30)
        same([tuple(each) for each in got], [(b"q2", b"x")])
        same(client.blpop("q1", timeout=0.01), None)
        client.zadd("z1", {"m": 3})
        key, member, score = client.bzpopmin("z1", timeout=30)
        same((key, member, float(score)), (b"z1", b"m", 3.0))
        waiting.close()

    def hashes():
        same(client.hset("h", mapping={"a": 1, "b": "x"}), 2)
        same(client.hgetall("h"), {b"a": b"1", b"b": b"x"})
        same(client.hincrby("h", "a", 41), 42)
        same(client.hmget("h", "a", "none"), [b"42", None])
        same(client.hdel("h", "b", "none"), 1)
        same(dict(client.hscan_iter("h")), {b"a": b"42"})

    def fields_with_deadlines():
        client.hset("d", mapping={"short": 1, "long": 2})
        same(client.execute_command("HPEXPIRE", "d", 20, "FIELDS", 1, "short"), [1])
        same(client.execute_command("HEXPIRE", "d", 100, "FIELDS", 2, "long", "none"), [1, -2])
        until("it goes", lambda: client.hlen("d") == 1 and not client.hexists("d", "short"))
        [left] = client.execute_command("HTTL", "d", "FIELDS", 1, "long")
        assert 97 < left <= 100, left

    def sets():
        same(client.sadd("s", 1, 2, 3, "x"), 4)
        client.sadd("t", 2, 3, 4)
        same(set(client.smembers("s")), {b"1", b"2", b"3", b"x"})
        same(set(client.sinter("s", "t")), {b"2", b"3"})
        same(set(client.sdiff("s", "t")), {b"1", b"x"})
        same(client.sunionstore("u", "s", "t"), 5)
        same([bool(each) for each in client.smismember("s", ["1", "none"])], [True, False])
        same(client.sintercard(2, ["s", "t"]), 2)
        same(client.srem("s", "x", "none"), 1)

    def sorted_sets():
        same(client.zadd("z", {"a": 1, "b": 2.5, "c": float("inf")}), 3)
        same(pairs(client.zrange("z", 0, -1, withscores=True)), [(b"a", 1.0), (b"b", 2.5), (b"c", float("inf"))])
        same(client.zscore("z", "b"), 2.5)
        same(client.zincrby("z", 2, "a"), 3.0)
        same(client.zrank("z", "a"), 1)
        same(client.zrangebyscore("z", "(2.5", "+inf"), [b"a", b"c"])
        same(pairs(client.zpopmin("z", 1)), [(b"b", 2.5)])
        same(client.zmscore("z", ["a", "none"]), [3.0, None])
        same(client.zunionstore("y", {"z": 10}), 2)
        same(client.zscore("y", "a"), 30.0)

    def streams():
        first = client.xadd("x", {"n": 1}, id="1-1")
        same(first, b"1-1")
        client.xadd("x", {"n": 2})
        same(client.xlen("x"), 2)
        same(client.xrange("x", "-", "1-1"), [(b"1-1", {b"n": b"1"})])
        same(len(entries(client.xread({"x": "1-1"}))), 1)

    def consumer_groups():
        same(client.xgroup_create("x", "g", id="0"), True)
        taken = entries(client.xreadgroup("g", "one", {"x": ">"}, count=1))
        same(taken, [(b"1-1", {b"n": b"1"})])
        [pending] = client.xpending_range("x", "g", "-", "+", 10)
        same((pending["message_id"], pending["consumer"], pending["times_delivered"]), (b"1-1", b"one", 1))
        claimed = client.xautoclaim("x", "g", "two", 0)
        same(claimed[1], [(b"1-1", {b"n": b"1"})])
        same(client.xack("x", "g", "1-1"), 1)
        same(client.xpending("x", "g")["pending"], 0)
        [group] = client.xinfo_groups("x")
        same((group["name"], group["consumers"], group["pending"], group["lag"]), (b"g", 2, 0, 1))

    def geo():
        client.geoadd("geo", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania"))
        distance = client.geodist("geo", "Palermo", "Catania", unit="km")
        assert abs(float(distance) - 166.2742) < 0.001, distance
        found = client.geosearch("geo", longitude=15, latitude=37, radius=200, unit="km", sort="ASC")
        same(found, [b"Catania", b"Palermo"])
        same(client.geohash("geo", "Palermo")[0] in (b"sqc8b49rny0", "sqc8b49rny0"), True)

    def bitmaps():
        same(client.setbit("bits", 7, 1), 0)
        same(client.setbit("bits", 100, 1), 0)
        same(client.bitcount("bits"), 2)
        same(client.bitpos("bits", 1), 7)
        same(client.bitop("NOT", "not", "bits"), 13)
        same(client.bitfield("field").set("u8", 0, 255).incrby("u8", 0, 10).get("u4", 0).execute(), [0, 9, 0])

    def hyperloglogs():
        same(client.pfadd("hll", *range(1000)), 1)
        assert 970 < client.pfcount("hll") < 1030
        client.pfadd("hll2", *range(500, 1500))
        same(client.pfmerge("hll3", "hll", "hll2"), True)
        assert 1450 < client.pfcount("hll3") < 1550

    def sorting():
        client.rpush("nums", 3, 1, 2)
        client.mset({"w:1": 30, "w:2": 10, "w:3": 20})
        same(client.sort("nums", desc=True), [b"3", b"2", b"1"])
        same(client.sort("nums", by="w:*", get=["#", "w:*"], groups=True), [(b"2", b"10"), (b"3", b"20"), (b"1", b"30")])
        same(client.sort("nums", store="sorted"), 3)

    def channels():
        listener = connect().pubsub()
        listener.subscribe("news")
        listener.psubscribe("sport.*")
        same([listener.get_message(timeout=10)["type"] for _ in range(2)], ["subscribe", "psubscribe"])
        same(client.publish("news", "one"), 1)
        same(client.publish("sport.ski", "two"), 1)
        got = [listener.get_message(timeout=10) for _ in range(2)]
        same([(each["type"], each["channel"], each["data"]) for each in got], [("message", b"news", b"one"), ("pmessage", b"sport.ski", b"two")])
        listener.unsubscribe()
        listener.punsubscribe()
        same([listener.get_message(timeout=10)["type"] for _ in range(2)], ["unsubscribe", "punsubscribe"])
        same(client.publish("news", "three"), 0)
        listener.close()

    client.flushall()
    return (
        lists, blocking_pops, hashes, fields_with_deadlines, sets, sorted_sets, streams, consumer_groups, geo, bitmaps, hyperloglogs, sorting, channels
    )
