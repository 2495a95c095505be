"""Rate limiters as scripts, called by threads of several processes at once: `rate_limiter_app.py PORT`. What they allow must be exact."""
import json
import sys
import threading

from redis import Redis

from checks import check, finish, port, same, start, until

PROCESSES, THREADS, CALLS = 3, 4, 60

# A window that begins with the first call.
FIXED = """
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if count > tonumber(ARGV[1]) then return {0, redis.call('PTTL', KEYS[1])} end
return {1, tonumber(ARGV[1]) - count}
"""
# The calls of the last so many milliseconds, one by one, by the server's clock.
SLIDING = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
local count = redis.call('ZCARD', KEYS[1])
if count >= tonumber(ARGV[1]) then return {0, 0} end
local number = redis.call('INCR', KEYS[2])
redis.call('ZADD', KEYS[1], now, now .. ':' .. number)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1, tonumber(ARGV[1]) - count - 1}
"""
# A bucket of tokens whose state is JSON in a string; its tokens come back too slowly to matter here.
BUCKET = """
local state = redis.call('GET', KEYS[1])
local bucket = state and cjson.decode(state) or {tokens = tonumber(ARGV[1])}
if bucket.tokens < 1 then return {0, bucket.tokens} end
bucket.tokens = bucket.tokens - 1
redis.call('SET', KEYS[1], cjson.encode(bucket), 'PX', ARGV[2])
return {1, bucket.tokens}
"""
# A counter for a user and one for everybody, whose key is not declared: it is allowed only where both allow it.
NESTED = """
local everybody = 'limit:' .. ARGV[3]
if tonumber(redis.call('GET', KEYS[1]) or 0) >= tonumber(ARGV[1]) then return {0, 1} end
if tonumber(redis.call('GET', everybody) or 0) >= tonumber(ARGV[2]) then return {0, 2} end
redis.call('INCR', KEYS[1])
return {1, redis.call('INCR', everybody)}
"""
LIMITERS = {"fixed": FIXED, "sliding": SLIDING, "bucket": BUCKET, "nested": NESTED}


def caller(script, keys, arguments):
    """What one process does: it prints how many calls were allowed."""
    allowed = []

    def one():
        limiter = Redis(port=port).register_script(script)
        allowed.append(sum(limiter(keys=keys, args=arguments)[0] for _ in range(CALLS)))

    threads = [threading.Thread(target=one) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(allowed) == THREADS
    Redis(port=port).rpush("allowed", sum(allowed))


if sys.argv[1] == "caller":
    caller(*json.loads(sys.argv[2]))
    sys.exit()

connection = Redis(port=port)
connection.flushall()
connection.script_flush()


def allowed(*calls):
    """How many calls were allowed in each of the processes, which call at the same time."""
    connection.delete("allowed")
    processes = [start(__file__, "caller", json.dumps(call)) for call in calls]
    same([process.wait(90) for process in processes], [0] * len(calls))
    return [int(count) for count in connection.lrange("allowed", 0, -1)]


def fixed():
    same(sum(allowed(*[(FIXED, ["fixed"], [100, 600_000])] * PROCESSES)), 100)
    same(connection.get("fixed"), str(PROCESSES * THREADS * CALLS).encode())
    script = connection.register_script(FIXED)
    same([script(keys=["short"], args=[3, 50])[0] for _ in range(3)], [1, 1, 1])
    until("the next window", lambda: script(keys=["short"], args=[3, 50])[0])


def sliding():
    same(sum(allowed(*[(SLIDING, ["sliding", "sliding:number"], [77, 600_000])] * PROCESSES)), 77)
    same(connection.zcard("sliding"), 77)


def bucket():
    same(sum(allowed(*[(BUCKET, ["bucket"], [250, 600_000])] * PROCESSES)), 250)
    same(json.loads(connection.get("bucket")), {"tokens": 0})


def nested():
    """Three users may call 100 times each, but all of them together 220 times."""
    same(sum(allowed(*[(NESTED, [f"user:{n}"], [100, 220, "everybody"]) for n in range(3)])), 220)
    same(connection.get("limit:everybody"), b"220")
    same(sum(int(connection.get(f"user:{n}")) for n in range(3)), 220)
    same(max(int(connection.get(f"user:{n}")) for n in range(3)) <= 100, True)


def pipelined():
    """All scripts in one pipeline, loaded by nobody before."""
    connection.flushall()
    connection.script_flush()
    pipe = connection.pipeline(transaction=False)
    scripts = {name: connection.register_script(script) for name, script in LIMITERS.items() if name != "nested"}
    for _ in range(30):
        for name, script in scripts.items():
            script(keys=[f"{name}:p", f"{name}:q"], args=[10, 600_000], client=pipe)
    replies = pipe.execute()
    for at in range(len(scripts)):
        same([allowed for allowed, _ in replies[at :: len(scripts)]], [1] * 10 + [0] * 20)


for run in (fixed, sliding, bucket, nested, pipelined):
    check(f"rate limiter: {run.__name__}", run)
finish()
