#!/usr/bin/env python3
"""Compares Java's InterProcessMutex with itself behind drivers/curator, to show the cost of the pipe without a hold.

Both sides run on one ensemble, each with its own lock. They alternate every two seconds: SIGSTOP pauses one side while
the other runs (session timeouts are 20 s). Drifts of the host, the servers or a compiler therefore affect both. The
number of acquisitions is read from the servers: each acquisition creates and deletes a node, and the directory's
`cversion` counts both.

If servers and load share the processors, the driver's processor time slows down everything else. `--delay` moves the
servers far enough away that no process waits for a processor.
"""

import argparse
import asyncio
import contextlib
import math
import multiprocessing
import os
import pathlib
import random
import shlex
import signal
import statistics
import subprocess
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

import compare

ROOT = compare.HERE.parent.parent
CONFIDENCE = 0.95
PAIRS_FOR_INTERVAL = 5
TURN_S = 2.0
# Start of each turn, which is not counted: queues form again, and caches fill.
SETTLE_S = 0.3
# Flags of drivers/curator/run, used for both sides.
JAVA_FLAGS = "-XX:+UseSerialGC -Xss512k"
# Longer than any comparison.
ENDLESS_S = 100_000
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="scripts/compare-curator --by-driver")
    parser.add_argument("--by-driver", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--connect", help="use this ensemble (default: three servers on this host)")
    parser.add_argument("--contenders", type=compare.positive, default=20, metavar="N")
    parser.add_argument("--pairs", type=compare.positive, default=60, metavar="N", help="turns of each side")
    parser.add_argument("--delay", type=float, default=0, metavar="MS", help="delay in each direction between clients and servers")
    parser.add_argument("--warm-up", type=compare.positive, default=20, metavar="SECONDS", help="of each side")
    args = parser.parse_args()
    args.program = str(pathlib.Path(args.program).resolve())
    return args


class Side:
    """A side of the comparison, with all of its processes and the directory of its lock."""

    def __init__(self, name, command, log, zookeeper, root):
        self.name = name
        self.log = log
        self.zookeeper = zookeeper
        with log.open("w") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        self.directory = self._directory(root)
        self.pids = family(self.process.pid)

    def _directory(self, root):
        """The node below the root that contains the queue, once the queue is in use."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            if found := queue_below(self.zookeeper, root):
                return found
            time.sleep(0.2)
        raise compare.NotMeasured(f"{self.name} did not start: {self.log.read_text().strip()[-2000:]}")

    def turn(self, seconds):
        """Runs the side for `seconds`, and returns acquisitions per second and processor seconds per acquisition."""
        self.signal(signal.SIGCONT)
        time.sleep(SETTLE_S)
        before, cpu_before, began = self.acquired(), self.cpu_s(), time.monotonic()
        time.sleep(seconds - SETTLE_S)
        acquired, cpu, took = self.acquired() - before, self.cpu_s() - cpu_before, time.monotonic() - began
        self.signal(signal.SIGSTOP)
        if self.process.poll() is not None or acquired <= 0:
            raise compare.NotMeasured(f"{self.name} has stopped: {self.log.read_text().strip()[-2000:]}")
        return acquired / took, cpu / acquired

    def acquired(self):
        return self.zookeeper.exists(self.directory).cversion / 2

    def cpu_s(self):
        """Processor time of all processes of the side, including threads that have ended."""
        fields = [pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.pids]
        return sum(int(each[11]) + int(each[12]) for each in fields) / TICKS_PER_S

    def signal(self, number):
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def end(self):
        self.signal(signal.SIGCONT)
        compare.end(self.process)


def family(pid):
    """The process and all its descendants."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def queue_below(zookeeper, root):
    with contextlib.suppress(NoNodeError):
        children = zookeeper.get_children(root)
        if any("-lock-" in child for child in children):
            return root
        for child in children:
            if found := queue_below(zookeeper, f"{root}/{child}"):
                return found
    return None


def measure(args, scratch):
    compare.compile_java(scratch)
    with compare.Ensemble(args, scratch) as connect, contextlib.ExitStack() as ending:
        zookeeper = KazooClient(hosts=connect)
        zookeeper.start(timeout=30)
        ending.callback(zookeeper.stop)
        if args.delay > 0:
            connect, process = far_away(connect, args.delay / 1e3)
            ending.callback(process.terminate)
        sides = []
        for begin in (bare, driven):
            side = begin(args, scratch, connect, zookeeper)
            ending.callback(side.end)
            side.signal(signal.SIGSTOP)
            sides.append(side)
        for _ in range(math.ceil(args.warm_up / TURN_S)):
            for side in sides:
                side.turn(TURN_S)
        pairs = []
        for number in range(1, args.pairs + 1):
            told = {}
            for side in random.sample(sides, len(sides)):
                told[side.name] = side.turn(TURN_S)
            pairs.append(told)
            compare.note(f"pair {number} of {args.pairs}: {told[BARE][0]:.0f}/s bare, {told[DRIVEN][0]:.0f}/s by driver")
        return pairs


# --- remote servers -----------------------------------------------------------------------------------------


def far_away(connect, delay_s):
    """Addresses of relays that add the delay in each direction, and the relays' process."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=lambda: asyncio.run(relay(connect.split(","), delay_s, there)), daemon=True)
    process.start()
    return here.recv(), process


async def relay(servers, delay_s, told):
    async def serve(server, client_in, client_out):
        server_in, server_out = await asyncio.open_connection(*server.rsplit(":", 1))
        await asyncio.gather(later(client_in, server_out, delay_s), later(server_in, client_out, delay_s))

    addresses = []
    for server in servers:
        listener = await asyncio.start_server(lambda *client, server=server: serve(server, *client), "127.0.0.1", 0)
        addresses.append("127.0.0.1:%d" % listener.sockets[0].getsockname()[1])
    told.send(",".join(addresses))
    await asyncio.Event().wait()


async def later(source, sink, delay_s):
    """Forwards each piece of data after the delay, until one side closes the connection."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(ConnectionError):
        while piece := await source.read(65536):
            loop.call_later(delay_s, sink.write, piece)
    loop.call_later(delay_s, sink.close)


# --- sides --------------------------------------------------------------------------------------------------

BARE, DRIVEN = "the bare loop", "the driver"


def bare(args, scratch, connect, zookeeper):
    class_path = ":".join(str(path) for path in [scratch, *compare.CLASS_PATH])
    command = [compare.java_program("java"), *shlex.split(JAVA_FLAGS), "-cp", class_path, "CuratorMutexBench", connect]
    command += ["/by-driver-bare", str(args.contenders), "0", str(ENDLESS_S * 1000), str(compare.SESSION_TIMEOUT_MS)]
    return Side(BARE, command, scratch / "bare.log", zookeeper, "/by-driver-bare")


def driven(args, scratch, connect, zookeeper):
    zookeeper.ensure_path("/by-driver-driven")
    command = [args.program, "run", str(compare.HERE / "curator.toml"), "--quiet", "--no-floor", "--counting", "never"]
    command += ["--connect", f"{connect}/by-driver-driven", "--out", str(scratch / "results")]
    command += ["--contenders", str(args.contenders), "--duration", f"{ENDLESS_S}s", "--set", 'warm_up="1s"']
    command += ["--set", f'session_timeout="{compare.SESSION_TIMEOUT_MS}ms"']
    command += ["--driver", f"curator={shlex.quote(str(ROOT / 'drivers' / 'curator' / 'run'))}"]
    command += ["--strategies", "curator:InterProcessMutex"]
    return Side(DRIVEN, command, scratch / "driven.log", zookeeper, "/by-driver-driven")


# --- output -------------------------------------------------------------------------------------------------


def report(args, pairs):
    paces = [pair[DRIVEN][0] / pair[BARE][0] for pair in pairs]
    low, high = interval(paces)
    away = f", servers {args.delay:g} ms away" if args.delay > 0 else ""
    print(f"{args.contenders} contenders, zero hold{away}, {len(pairs)} pairs of turns of {TURN_S:.0f} s\n")
    for name in (BARE, DRIVEN):
        pace, cpu = (statistics.median(pair[name][part] for pair in pairs) for part in (0, 1))
        print(f"{name:<14} {pace:8.1f} acquisitions per second, {cpu * 1e3:.3f} ms of processor time each")
    print(f"\nby driver: {mean(paces):.3f} times the bare loop's rate, {CONFIDENCE:.0%} interval {low:.3f} to {high:.3f}")
    return 0


def mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def interval(ratios):
    """Confidence interval of the mean ratio, by Student's t over the pairs' logarithms."""
    if len(ratios) < PAIRS_FOR_INTERVAL:
        return 0.0, math.inf
    logs = [math.log(ratio) for ratio in ratios]
    spread = statistics.stdev(logs) / math.sqrt(len(logs)) * student(len(logs) - 1)
    middle = statistics.fmean(logs)
    return math.exp(middle - spread), math.exp(middle + spread)


def student(freedom):
    """The two-sided 95 % quantile of Student's t, by its expansion in 1/freedom; exact to 0.3 % with 4 or more degrees."""
    normal = statistics.NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    terms = [
        normal,
        (normal**3 + normal) / 4,
        (5 * normal**5 + 16 * normal**3 + 3 * normal) / 96,
        (3 * normal**7 + 19 * normal**5 + 17 * normal**3 - 15 * normal) / 384,
    ]
    return sum(term / freedom**power for power, term in enumerate(terms))


if __name__ == "__main__":
    sys.exit(compare.main(arguments, measure, report))
