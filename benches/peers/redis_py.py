"""A member of a team that locks with redis-py's Lock: see `src/team/`.

It has a thread for each task. The lock runs with its defaults, except for a lease of 30 s, because it has none by
default. The impatient row tries again after 1 ms instead of 100 ms.
"""

import json
import math
import os
import struct
import sys
import threading
import time

import redis

ENTRY = struct.Struct("=5Q")
FINENESS = 32
PATIENCE = 5


class Histogram:
    def __init__(self):
        self.classes, self.max = {}, 0

    def add(self, nanos):
        nanos = max(nanos, 1)
        number = int(math.log2(nanos) * FINENESS)
        self.classes[number] = self.classes.get(number, 0) + 1
        self.max = max(self.max, nanos)

    def json(self):
        return {"max": self.max, "classes": sorted(self.classes.items())}


class Member:
    def __init__(self, plan):
        self.plan = plan
        self.process = plan["number"] + 1
        self.client = redis.Redis.from_url(plan["url"], max_connections=10_000)
        self.sleep = 0.001 if plan["contestant"].endswith("impatient") else 0.1
        self.record = os.open(plan["record"], os.O_RDWR)
        self.may_ask = threading.Semaphore(0)
        self.counting = self.done = False
        self.start = self.cpu = 0
        self.inside_since = 0
        tasks = range(plan["tasks"])
        self.passes = [0 for _ in tasks]
        self.before = [0 for _ in tasks]
        self.waiting_since = [0 for _ in tasks]
        self.handovers = self.crossings = self.in_turn = self.in_use = 0
        self.waits, self.latencies, self.turns = Histogram(), Histogram(), Histogram()

    def lock(self, key):
        return self.client.lock(key, timeout=30, sleep=self.sleep)

    def work(self, task):
        lock, last = self.lock(self.plan["key"]), None
        while not self.done:
            if self.plan["by_turns"]:
                self.may_ask.acquire()
            self.waiting_since[task] = time.monotonic_ns()
            with lock:
                if not self.done:
                    last = self.section(task, last)

    def section(self, task, last):
        begun = time.monotonic_ns()
        count, holder, process, turn_began, released = ENTRY.unpack(
            os.pread(self.record, ENTRY.size, 0)
        )
        number = self.plan["number"] * self.plan["tasks"] + task + 1
        since, self.waiting_since[task] = self.waiting_since[task], 0
        self.inside_since = begun
        if self.counting:
            self.waits.add(begun - since)
            self.handovers += holder != number
            self.in_turn += last is not None and count - last == self.plan["tasks_of_all"]
            if process not in (0, self.process):
                self.crossings += 1
                self.latencies.add(begun - released)
                if turn_began >= self.start:
                    self.turns.add(begun - turn_began)
        if self.plan["by_turns"]:
            say("have")
        if self.plan["hold"]:
            time.sleep(self.plan["hold"] / 1e9)
        ended = time.monotonic_ns()
        turn_began = turn_began if process == self.process else begun
        entry = ENTRY.pack(count + 1, number, self.process, turn_began, ended)
        os.pwrite(self.record, entry, 0)
        self.passes[task] += 1
        self.inside_since = 0
        if self.counting:
            self.in_use += ended - max(begun, self.start)
        return count

    def begin_to_count(self):
        self.before = list(self.passes)
        self.cpu = time.process_time_ns()
        self.start = time.monotonic_ns()
        self.counting = True

    def end_counting(self):
        self.counting, self.done = False, True
        end = time.monotonic_ns()
        inside_since = self.inside_since
        if inside_since:
            self.in_use += end - max(inside_since, self.start)
        for since in self.waiting_since:
            if since:
                self.waits.add(end - max(since, self.start))
        passes = [after - before for after, before in zip(self.passes, self.before)]
        return {
            "elapsed": end - self.start,
            "passes": passes,
            "handovers": self.handovers,
            "crossings": self.crossings,
            "in_turn": self.in_turn,
            "in_use": self.in_use,
            "waits": self.waits.json(),
            "latencies": self.latencies.json(),
            "turns": self.turns.json(),
            "cpu": time.process_time_ns() - self.cpu,
        }


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main():
    member = Member(json.loads(sys.stdin.readline()))
    with member.lock(f"{member.plan['key']}:{member.plan['number']}"):
        pass
    say("ready get,del,pexpire")
    threads = []
    for order in sys.stdin:
        match order.strip():
            case "go":
                for task in range(member.plan["tasks"]):
                    thread = threading.Thread(target=member.work, args=(task,), daemon=True)
                    threads.append(thread)
                    thread.start()
            case "ask":
                member.may_ask.release()
            case "count":
                member.begin_to_count()
            case "stop":
                break
    tally = member.end_counting()
    # A task in its section ends it; waiters are left behind.
    deadline = time.monotonic() + PATIENCE
    while member.inside_since and time.monotonic() < deadline:
        time.sleep(0.001)
    tally["total"] = sum(member.passes)
    say(json.dumps(tally))
    os._exit(0)


main()
