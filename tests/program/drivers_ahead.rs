//! Acquires that are sent ahead to a driver: nothing of what was done is lost, however the load ends, and a lie is found.

use std::time::Duration;

use rustix::process::Signal;
use zklockbench_record::Trial;
use zklockbench_zk::{Access, Target};

use crate::support::program::{Bench, signal, stderr};
use crate::support::{ensemble, foreign};

const CONTENDERS: u64 = 4;

/// A lock of its own process, which takes acquires ahead, holds back what it has to say, and counts its grants. Of 50 acquires one
/// is refused, and of 100 one fails so that nobody knows what it has left. With `lie` everybody gets in.
const IN_PROCESS: &str = r#"
import json, pathlib, queue, sys, threading, time
lies = "lie" in sys.argv
lock, output, granted, begun, held_back, contenders = threading.Lock(), threading.Lock(), [0], [0], [], {}
def now():
    return time.monotonic_ns() // 1000
def say(*told, at_once=True):
    with output:
        held_back.extend(told)
        if at_once or len(held_back) > 100:
            sys.stdout.write("".join(json.dumps(each) + "\n" for each in held_back))
            sys.stdout.flush()
            held_back.clear()
def later():
    while True:
        time.sleep(0.02)
        say()
class Contender(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.asked, self.cancelled, self.released = queue.Queue(), 0, 0
        self.start()
    def run(self):
        while True:
            asked = self.asked.get()
            if asked["t"] == "acquire":
                say(*self.turn(asked), at_once=self.asked.empty())
            else:
                say({"id": asked["id"], "ok": {"now": now()}})
    def turn(self, asked):
        number, called, not_done = asked["id"], now(), {"id": asked["id"], "err": "cancelled"}
        if number <= self.cancelled or asked.get("after", self.released) != self.released:
            return [not_done]
        begun[0] += 1
        if begun[0] % 50 == 0:
            return [{**not_done, "err": "connection" if begun[0] % 100 == 0 else "busy"}]
        while not lies and not lock.acquire(timeout=0.005):
            if number <= self.cancelled:
                return [not_done]
        entered = now()
        time.sleep(0.001)
        granted[0] += 1
        left = now()
        if not lies:
            lock.release()
        self.released = number
        return [{"id": number, "ok": {}, "from": called, "to": entered},
                {"id": number, "released": {}, "from": left, "to": now()}]
threading.Thread(target=later, daemon=True).start()
for line in sys.stdin:
    asked = json.loads(line)
    kind, one = asked["t"], contenders.get(asked.get("c"))
    if kind == "hello":
        locks = {"Lock": {"timeout": "none", "cancel": "native"}}
        say({"t": "ready", "v": 1, "driver": "own", "system": "none", "hold": True, "ahead": 16, "clock": "monotonic",
             "locks": locks})
    elif kind == "open":
        contenders[asked["c"]] = Contender()
        say({"id": asked["id"], "ok": {}})
    elif kind == "cancel" or one is None:
        for each in contenders.values() if kind == "cancel" else []:
            each.cancelled = asked["of"]
        say({"id": asked["id"], "ok": {"now": now()}})
    else:
        if kind == "close":
            one.cancelled = asked["id"]
        one.asked.put(asked)
pathlib.Path("granted").write_text(str(granted[0]))
"#;

fn in_process(more: &str) -> (Bench, Trial, String) {
    let bench = Bench::with(&format!(
        "name = \"ahead\"\nstrategies = [\"own:Lock\"]\ncontenders = {CONTENDERS}\nhold = \"0ms\"\nduration = \"2s\"\n\
         warm_up = \"300ms\"\nrepetitions = 1\n[ensemble]\nservers = 1\n"
    ));
    std::fs::write(bench.path("own.py"), IN_PROCESS).unwrap();
    let driver = format!("own=python3 own.py {more}");
    let words = ["run", "scenario.toml", "--driver", &driver, "--data-dir", "data", "--no-floor"];
    let output = bench.output(&[&words[..], &["--counting", "never"]].concat());
    let trial = bench.stored().trials.remove(0);
    let said = stderr(&output);
    assert_eq!(trial.driver.as_ref().unwrap().ahead, Some(16), "{said}");
    (bench, trial, said)
}

#[test]
fn all_that_a_driver_has_granted_ahead_is_recorded_whatever_was_refused_failed_or_cancelled_in_between() {
    let (bench, trial, said) = in_process("");
    let granted: u64 = std::fs::read_to_string(bench.path("granted")).unwrap().parse().unwrap();
    assert!(granted > 200 && trial.whole.acquired() == granted, "{granted}: {:?} {said}", trial.whole);
    assert!(trial.measured.acquired() < granted && !trial.is_violated(), "{said}");
    // Each failure is one, not one for each acquire that came after it; and at the end one wait of each is cancelled, at most.
    let failures: u64 = trial.errors.values().sum();
    assert!((granted / 60..=granted / 40).contains(&failures), "{granted}: {:?}", trial.errors);
    let cancelled = trial.whole.outcomes.get(zklockbench_core::measure::Outcome::Cancelled);
    assert!(cancelled <= CONTENDERS, "{cancelled}");
}

#[test]
fn a_driver_that_lets_everybody_in_is_found_though_its_answers_come_late_and_many_at_a_time() {
    let (_, trial, said) = in_process("lie");
    assert!(trial.is_violated() && trial.most_inside == 2, "{said}");
}

/// How often children of the lock of the only trial have come or gone, by the last look before it is cleared; says so once it has
/// been a hundred times.
fn changes(connect: &str, path: &str, ended: impl Fn() -> bool, hundred: impl FnOnce()) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let target = Target { connect: connect.into(), access: Access::default() };
        let client = target.client(Duration::from_secs(10)).await.unwrap();
        let (mut last, mut hundred) = (0, Some(hundred));
        while !ended() {
            if let Some(stat) = client.check_stat(path).await.unwrap() {
                last = last.max(u64::try_from(stat.cversion).unwrap());
            }
            if last >= 100
                && let Some(hundred) = hundred.take()
            {
                hundred();
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        last
    })
}

#[test]
#[ignore = "long: Java is started, and runs end twice"]
fn as_many_of_curators_acquisitions_are_recorded_as_the_server_has_seen_also_when_a_run_is_interrupted() {
    for is_interrupted in [false, true] {
        let bench = Bench::new();
        let Some(driver) = foreign::curator(&bench.path("cache")) else { return };
        let connect = ensemble::place_on_shared();
        let lasts = if is_interrupted { 60 } else { 2 };
        bench.scenario(&format!(
            "name = \"ahead\"\nstrategies = [\"curator:InterProcessMutex\"]\ncontenders = {CONTENDERS}\nhold = \"0ms\"\n\
             duration = \"{lasts}s\"\nwarm_up = \"300ms\"\nrepetitions = 1\n"
        ));
        let words = ["run", "scenario.toml", "--connect", &connect, "--run-id", "ahead", "--no-floor"];
        let child = bench.watch(&[&words[..], &["--counting", "never", "--driver", &driver]].concat());
        let pid = child.pid();
        let path = "/zklockbench/ahead/t000/lock-0";
        let ended = std::thread::spawn(move || child.end());
        let interrupts = || {
            if is_interrupted {
                signal(pid, Signal::INT);
            }
        };
        let changes = changes(&connect, path, || ended.is_finished(), interrupts);
        let (code, said) = ended.join().unwrap();
        // Holds of no length show little: it may be unknown whether the lock held.
        assert!(
            if is_interrupted { code == Some(130) } else { matches!(code, Some(0 | 4)) },
            "{code:?}: {said}"
        );
        let trial = bench.stored().trials.remove(0);
        assert_eq!((trial.driver.as_ref().unwrap().ahead, trial.is_violated()), (Some(64), false), "{said}");
        // A wait that was cancelled at the end has come and gone, too, if it had got so far.
        let (acquired, seen) = (trial.whole.acquired(), changes / 2);
        assert!(acquired > 20 && changes % 2 == 0, "{changes}: {said}");
        assert!(
            (acquired..=acquired + CONTENDERS).contains(&seen),
            "{acquired} recorded, {seen} seen: {said}"
        );
    }
}
