#!/usr/bin/env python3
"""Runs Java's InterProcessMutex and the suite's curator-mutex alternately and compares their costs.

Both sides use the same ensemble, number of contenders, warm-up and measured phase. Each contender has its own session.
Each process reads its processor time for the measured phase from the system. Memory is the peak resident set of the
process, read from outside. Ratios show how many times better the suite's lock is. They are computed per round, because
a shared machine drifts between rounds.
"""

import argparse
import json
import os
import pathlib
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
JARS = pathlib.Path("/usr/share/java")
# The manifest of each Curator jar lists its dependencies. slf4j-nop discards the log.
CLASS_PATH = [JARS / "curator-recipes.jar", JARS / "slf4j-nop.jar"]
# Best flags for Java under this load; see README.md in this directory.
JAVA_FLAGS = "-XX:+UseSerialGC -Xmx64m"
SESSION_TIMEOUT_MS = 20_000
POLL_S = 0.05
OUR_NAME, JAVA_NAME = "zklockbench", "Java Curator"
# Compared metrics: key, heading, better direction, required ratio.
MEASURES = [
    ("acquisitions_per_s", "acquisitions/s", "more", 1.0),
    ("cpu_s_per_1000", "CPU s/1000 acq.", "less", 3.0),
    ("peak_bytes", "peak RSS MB", "less", 3.0),
]


class NotMeasured(Exception):
    """The comparison failed; the message contains the reason."""


def main(arguments, measure, report):
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with tempfile.TemporaryDirectory(prefix="zklockbench-curator-") as scratch:
            measured = measure(args, pathlib.Path(scratch))
    except NotMeasured as why:
        print(f"error: {why}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    return report(args, measured)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="scripts/compare-curator")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--connect", help="use this ensemble (default: three servers on this host)")
    parser.add_argument("--contenders", type=positive, default=20, metavar="N")
    parser.add_argument("--rounds", type=positive, default=3, metavar="R")
    parser.add_argument("--warm-up", type=positive, default=10, metavar="SECONDS")
    parser.add_argument("--measure", type=positive, default=20, metavar="SECONDS")
    parser.add_argument("--java-flags", default=JAVA_FLAGS, metavar="FLAGS", help=f"default: {JAVA_FLAGS}")
    parser.add_argument("--json", action="store_true", help="print the metrics as JSON instead of a table")
    args = parser.parse_args()
    args.program = str(pathlib.Path(args.program).resolve())
    return args


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


# --- measurement --------------------------------------------------------------------------------------------


def measure(args, scratch):
    compile_java(scratch)
    with Ensemble(args, scratch) as connect:
        # The servers' JVMs also need a warm-up; otherwise the first side would be slower.
        note("warming up the ensemble")
        run_java(args, scratch, connect, warm_up_s=0)
        rounds = []
        sides = {
            "java": (JAVA_NAME, lambda _: run_java(args, scratch, connect, args.warm_up)),
            "ours": (OUR_NAME, lambda number: run_ours(args, scratch, connect, number)),
        }
        for number in range(1, args.rounds + 1):
            told = {}
            # Alternate the order, so a drift of the host favours neither side.
            for side in sorted(sides, reverse=number % 2 == 0):
                name, run = sides[side]
                note(f"round {number} of {args.rounds}: {name}")
                told[side] = run(number)
            rounds.append({**told, "ratios": ratios(told["java"], told["ours"])})
        return rounds


def compile_java(scratch):
    for jar in CLASS_PATH:
        if not jar.is_file():
            raise NotMeasured(f"{jar} is missing; run: scripts/install --for-tests")
    source = str(HERE / "CuratorMutexBench.java")
    checked([java_program("javac"), "-d", str(scratch), "-cp", str(CLASS_PATH[0]), source])


def java_program(name):
    at_home = pathlib.Path(os.environ.get("JAVA_HOME", "/nowhere")) / "bin" / name
    return str(at_home) if at_home.is_file() else name


class Ensemble:
    """The given ensemble, or an ensemble started for the comparison."""

    def __init__(self, args, scratch):
        self.program, self.connect = args.program, args.connect
        self.own = args.connect is None
        # Must not interfere with a local ensemble that the user keeps running.
        self.environment = dict(os.environ, ZKLOCKBENCH_STATE_DIR=str(scratch / "state"))

    def __enter__(self):
        if self.own:
            note("starting three servers")
            up = [self.program, "ensemble", "up", "--json"]
            self.connect = json.loads(checked(up, env=self.environment))["connect"]
        return self.connect

    def __exit__(self, *_):
        if self.own:
            subprocess.run([self.program, "ensemble", "down"], env=self.environment, stderr=subprocess.DEVNULL)


def run_java(args, scratch, connect, warm_up_s):
    class_path = ":".join(str(path) for path in [scratch, *CLASS_PATH])
    command = [java_program("java"), *shlex.split(args.java_flags), "-cp", class_path, "CuratorMutexBench"]
    command += [connect, "/zklockbench-java", str(args.contenders)]
    command += [str(warm_up_s * 1000), str(args.measure * 1000), str(SESSION_TIMEOUT_MS)]
    output, peak = watched(command, scratch / "java.log")
    told = json.loads(output)
    if told["errors"]:
        raise NotMeasured(f"{JAVA_NAME} had errors: {told['errors']}")
    return figures(told["acquisitions"], told, told["wait_p50_us"], told["wait_p99_us"], peak)


def run_ours(args, scratch, connect, number):
    out, name = scratch / "results", f"curator-{os.getpid()}-{number}"
    command = [args.program, "run", str(HERE / "curator.toml"), "--quiet", "--json"]
    command += ["--connect", connect, "--out", str(out), "--run-id", name]
    command += ["--contenders", str(args.contenders), "--duration", f"{args.measure}s"]
    command += ["--set", f'warm_up="{args.warm_up}s"', "--set", f'session_timeout="{SESSION_TIMEOUT_MS}ms"']
    # Exit code 4 means too little evidence of exclusion, because holds have no length.
    _, peak = watched(command, scratch / "ours.log", (0, 4))
    trial = json.loads((out / name / "trials" / "000.json").read_text())
    if trial["errors"] or trial["health"]["invalid"]:
        raise NotMeasured(f"{OUR_NAME} had errors or was invalid: {trial['errors']} {trial['health']['invalid']}")
    told = {**trial["health"], "measured_us": trial["measured_us"]}
    wait = trial["latencies"]["wait"]
    return figures(trial["measured"]["outcomes"]["acquired"], told, wait["p50_us"], wait["p99_us"], peak)


def figures(acquired, told, wait_p50_us, wait_p99_us, peak_bytes):
    if acquired == 0:
        raise NotMeasured("no acquisitions in the measured phase")
    return {
        "acquisitions_per_s": acquired * 1e6 / told["measured_us"],
        "wait_p50_us": wait_p50_us,
        "wait_p99_us": wait_p99_us,
        "cpu_s_per_1000": told["cpu_us"] / 1e3 / acquired,
        "resident_bytes": told["resident_bytes"],
        "peak_bytes": peak_bytes,
    }


def watched(command, log, good=(0,)):
    """Runs a command to its end, and returns its stdout and its peak resident set."""
    output = log.with_suffix(".out")
    with log.open("w") as errors, output.open("w") as stdout:
        process = subprocess.Popen(command, stdout=stdout, stderr=errors)
        peak = None
        try:
            while process.poll() is None:
                # The peak only grows, so the last reading is at most one interval old.
                peak = high_water_mark(process.pid) or peak
                time.sleep(POLL_S)
        finally:
            end(process)
    if process.returncode not in good:
        raise NotMeasured(f"{command[0]} exited with {process.returncode}: {log.read_text().strip()[-2000:]}")
    if peak is None:
        raise NotMeasured("this system does not report the memory of a process (no /proc)")
    return output.read_text(), peak


def high_water_mark(pid):
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)


def end(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def checked(command, env=None):
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    except OSError as error:
        raise NotMeasured(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise NotMeasured(f"{' '.join(command)} exited with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


# --- output -------------------------------------------------------------------------------------------------


def ratios(java, ours):
    """Factor by which the suite's lock is better, by metric."""
    better = {"more": lambda key: ours[key] / java[key], "less": lambda key: java[key] / ours[key]}
    return {key: better[which](key) for key, _, which, _ in MEASURES}


def report(args, rounds):
    medians = {key: statistics.median(each["ratios"][key] for each in rounds) for key, *_ in MEASURES}
    reached = {key: medians[key] >= wanted for key, _, _, wanted in MEASURES}
    if args.json:
        question = {"contenders": args.contenders, "measure_s": args.measure, "java_flags": args.java_flags}
        print(json.dumps({**question, "rounds": rounds, "median_ratios": medians, "reached": reached}))
    else:
        print_table(args, rounds, medians)
        print_verdict(medians, reached)
    return 0 if all(reached.values()) else 1


def print_table(args, rounds, medians):
    print(f"{args.contenders} contenders, zero hold, {args.measure} s measured; Java with {args.java_flags}\n")
    line = "{:<7} {:<14} {:>15} {:>11} {:>11} {:>16} {:>12} {:>12}"
    headings = ["acquisitions/s", "wait p50 ms", "wait p99 ms", "CPU s/1000 acq.", "RSS MB", "peak RSS MB"]
    print(line.format("round", "", *headings))
    for number, each in enumerate(rounds, 1):
        for name, side in ((JAVA_NAME, each["java"]), (OUR_NAME, each["ours"])):
            print(line.format(number, name, *cells(side)))
        print(line.format("", "times better", *ratio_cells(each["ratios"])))
    print(line.format("median", "times better", *ratio_cells(medians)))


def cells(side):
    resident = side["resident_bytes"]
    return [
        f"{side['acquisitions_per_s']:.1f}",
        f"{side['wait_p50_us'] / 1e3:.2f}",
        f"{side['wait_p99_us'] / 1e3:.2f}",
        f"{side['cpu_s_per_1000']:.3f}",
        "-" if resident is None else f"{resident / 1e6:.1f}",
        f"{side['peak_bytes'] / 1e6:.1f}",
    ]


def ratio_cells(by_measure):
    speed, cpu, memory = (f"{by_measure[key]:.2f}" for key, *_ in MEASURES)
    return [speed, "", "", cpu, "", memory]


def print_verdict(medians, reached):
    print()
    for key, heading, which, wanted in MEASURES:
        aim = "at least as many" if which == "more" else f"at most 1/{wanted:.0f}"
        word = "reached" if reached[key] else "NOT reached"
        print(f"{heading}: {aim}: {word} (median ratio {medians[key]:.2f}, target {wanted:.0f})")


def note(text):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(arguments, measure, report))
