//! Two simultaneous faults on one target. Each fault is in effect until its own end, and has no effect afterwards.
//!
//! The tests cover every pair of kinds that can share a target, and each kind with itself, in both orders.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use zklockbench_core::catalog::fault::{Capability, Ends, FaultChoice, Proof, Target as TargetOf};
use zklockbench_core::clock::Stamp;
use zklockbench_ensemble::fault::{
    Active, Admission, Contenders, CrashOrder, CrashOrders, Doing, FaultReach, Firing, InEffect, cards, find,
};
use zklockbench_ensemble::proxy::{Proxy, Settings, Who};
use zklockbench_ensemble::{Links, Local, Processes, eventually};
use zklockbench_zk::gate::{Gate, TaskScope};
use zklockbench_zk::{SessionKey, Target};

use crate::support::{breakable, faults::WITHIN, sessions::target, trials};

/// A fault of this kind. The second fault differs from the first if the kind has parameters.
fn asked(kind: &str, is_second: bool) -> FaultChoice {
    let card = find(kind).unwrap().card;
    let target = match card.targets.words() {
        [] => String::new(),
        _ if card.needs.reaches_servers() => "server = 2\n".into(),
        _ => "contender = 0\n".into(),
    };
    let value = match (kind, is_second) {
        ("delay", false) => "latency = \"30ms\"\n",
        ("delay", true) => "latency = \"20ms\"\n",
        ("bandwidth", false) => "bytes_per_second = 1000\n",
        ("bandwidth", true) => "bytes_per_second = 2000\n",
        ("slow-consumer", false) => "lag = \"30ms\"\n",
        ("slow-consumer", true) => "lag = \"20ms\"\n",
        ("partition", true) => "shape = \"one-way\"\n",
        _ => "",
    };
    let duration = if card.ends == Ends::Healed { "duration = \"10s\"\n" } else { "" };
    let scenario = format!(
        "strategies = [\"baton\"]\ncontenders = 2\nduration = \"60s\"\nsession_timeout = \"30s\"\n\
         acquire_timeout = \"60s\"\n[[fault]]\nkind = \"{kind}\"\nat = \"0s\"\n{target}{duration}{value}"
    );
    trials::plan(&scenario).remove(0).faults.remove(0)
}

/// Kinds of faults whose required capability matches `is_meant`, divided into lasting and momentary faults.
fn kinds(is_meant: impl Fn(Capability) -> bool) -> [Vec<&'static str>; 2] {
    let of = |ends| {
        let cards = cards().into_iter();
        let meant = cards.filter(|card| card.ends == ends && is_meant(card.needs));
        meant.map(|card| card.name).collect()
    };
    [of(Ends::Healed), of(Ends::ByItself)]
}

/// Both orders of each pair, and each kind with itself.
fn pairs(kinds: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    kinds.iter().flat_map(|one| kinds.iter().map(|other| (*one, *other))).collect()
}

async fn begin<'a>(choice: &'a FaultChoice, reach: &'a FaultReach<'a>) -> Active<'a> {
    let draw = ChaCha8Rng::seed_from_u64(1);
    (find(&choice.kind).unwrap().inject)(Firing { choice, reach, draw }).await.unwrap()
}

fn assert_proved(proof: &Proof, when: &str) {
    assert!(matches!(proof, Proof::Proved(_)), "{when}: {proof:?}");
}

/// Starts the first fault and then the second, and ends them in the same order. In between, each fault's own check
/// verifies that the fault is in effect.
async fn overlap<S, F>(reach: &FaultReach<'_>, (one, other): (&str, &str), see: S) -> [F::Output; 4]
where
    S: Fn() -> F,
    F: Future,
{
    let name = format!("{one}, then {other}");
    let (first, second) = (asked(one, false), asked(other, true));
    let first = begin(&first, reach).await;
    assert_proved(&first.proof, &name);
    let with_first = see().await;
    let second = begin(&second, reach).await;
    assert_proved(&second.proof, &name);
    let with_both = see().await;
    assert_eq!(first.still.await, Ok(()), "{name}: {one} ended when {other} started");
    first.healing.await.unwrap_or_else(|why| panic!("{name}: {one}: {why}"));
    assert_eq!(second.still.await, Ok(()), "{name}: {other} ended with {one}");
    let with_second = see().await;
    second.healing.await.unwrap_or_else(|why| panic!("{name}: {other}: {why}"));
    [with_first, with_both, with_second, see().await]
}

/// Stub contenders with a real gate and real admission.
#[derive(Default)]
struct Stub {
    gate: Arc<Gate>,
    admission: Arc<Admission>,
    crashes: Arc<CrashOrders>,
}

impl Contenders for Stub {
    fn all(&self) -> Vec<usize> {
        vec![0, 1]
    }
    fn locks(&self) -> Vec<String> {
        Vec::new()
    }
    fn inside(&self) -> Vec<usize> {
        vec![0]
    }
    fn waiting(&self) -> Vec<usize> {
        vec![0]
    }
    fn waits_since(&self, _: usize) -> Option<Stamp> {
        None
    }
    fn gate(&self, _: usize) -> Arc<Gate> {
        Arc::clone(&self.gate)
    }
    fn admission(&self, _: usize) -> Arc<Admission> {
        Arc::clone(&self.admission)
    }
    fn session(&self, _: usize) -> Option<SessionKey> {
        None
    }
    fn is_being_closed(&self, _: usize, _: i64) {}
    fn was_closed(&self, _: usize, _: i64) {}
    fn clock_jumps(&self, _: usize, _: Duration) {}
    fn crash(&self, _: usize, doing: Doing) -> CrashOrder {
        let order = self.crashes.give(doing);
        assert!(self.crashes.due(doing).now_or_never().is_some());
        self.crashes.has_crashed();
        order
    }
    fn acquired(&self) -> u64 {
        0
    }
}

/// The reach of a fault that affects only these contenders.
fn reach<'a>(contenders: &'a Stub, target: &'a Target) -> FaultReach<'a> {
    let in_effect = InEffect::default();
    FaultReach { contenders, target, processes: None, proxy: None, in_effect }
}

fn nowhere() -> Target {
    target("127.0.0.1:1")
}

/// Injects a momentary fault during another fault. The momentary fault may find no target.
async fn in_passing(kind: &str, reach: &FaultReach<'_>) {
    let choice = asked(kind, true);
    let draw = ChaCha8Rng::seed_from_u64(1);
    let doing = (find(kind).unwrap().inject)(Firing { choice: &choice, reach, draw });
    if let Ok(Ok(active)) = tokio::time::timeout(Duration::from_millis(100), doing).await {
        active.healing.await.unwrap();
    }
}

#[tokio::test]
async fn overlapping_faults_of_a_contender_end_independently() {
    let (stub, target) = (Stub::default(), nowhere());
    let reach = reach(&stub, &target);
    // Given a task that runs continuously behind the gate
    let scope = TaskScope::behind(Arc::clone(&stub.gate));
    let running = scope.around(async {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let runs = async || {
        let before = stub.gate.times_passed();
        // Counts polls instead of time, because the task can run between polls, however slow the host is.
        for _ in 0..STEPS {
            if stub.gate.times_passed() != before {
                return true;
            }
            tokio::time::sleep(BETWEEN).await;
        }
        false
    };
    let checking = async {
        let [lasting, passing] = kinds(|needs| needs == Capability::Contenders);
        assert!(lasting.contains(&"freeze") && passing.contains(&"crash"), "{lasting:?} {passing:?}");
        for pair in pairs(&lasting) {
            let seen = overlap(&reach, pair, &runs).await;
            let freezes = [pair.0, pair.1].map(|kind| kind == "freeze");
            let expected = [!freezes[0], !freezes[0] && !freezes[1], !freezes[1], true];
            assert_eq!(seen, expected, "{pair:?}: whether the task ran after each step");
        }
        for (one, other) in lasting.iter().flat_map(|one| passing.iter().map(move |other| (one, other))) {
            let choice = asked(one, false);
            let active = begin(&choice, &reach).await;
            in_passing(other, &reach).await;
            assert_eq!(active.still.await, Ok(()), "{one}, then {other}");
            active.healing.await.unwrap();
            assert!(runs().await, "{one}, then {other}");
        }
    };
    tokio::select! {
        () = running => unreachable!("the task never ends"),
        () = checking => {}
    }
}

/// A client's connect request, and its repeated ping.
const CONNECT: [u8; 49] = {
    let mut frame = [0; 49];
    (frame[3], frame[18], frame[19], frame[31]) = (45, 0x27, 0x10, 16);
    frame
};
const PING: [u8; 12] = [0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11];
/// The server's replies.
const CONNECTED: [u8; 41] = {
    let mut frame = [0; 41];
    (frame[3], frame[10], frame[11], frame[19], frame[23]) = (37, 0x27, 0x10, 1, 16);
    frame
};
const PONG: [u8; 20] = {
    let mut frame = [0; 20];
    (frame[3], frame[4], frame[5], frame[6], frame[7]) = (16, 0xff, 0xff, 0xff, 0xfe);
    frame
};

/// A server that answers pings, and a client that pings continuously and always reconnects. The traffic reveals the
/// proxy's settings.
struct Wire {
    proxy: Proxy,
    over: Arc<AtomicBool>,
}

impl Wire {
    fn new() -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::before(&[server.local_addr().unwrap().to_string()]).unwrap();
        let address = proxy.connect_for(0).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        std::thread::spawn(move || {
            for stream in server.incoming().flatten() {
                std::thread::spawn(move || answer(stream));
            }
        });
        let done = Arc::clone(&over);
        std::thread::spawn(move || {
            while !done.load(Ordering::SeqCst) {
                if let Ok(stream) = TcpStream::connect(&address) {
                    let _ = ask(stream, &done);
                }
                std::thread::sleep(BETWEEN);
            }
        });
        Self { proxy, over }
    }
}

const BETWEEN: Duration = Duration::from_millis(2);
/// Number of polls after which a task that is not frozen has certainly made progress.
const STEPS: u32 = 75;

fn answer(mut stream: TcpStream) {
    let (mut bytes, mut reply) = ([0; 1_024], &CONNECTED[..]);
    while stream.read(&mut bytes).is_ok_and(|read| read > 0) && stream.write_all(reply).is_ok() {
        reply = &PONG;
    }
}

fn ask(mut stream: TcpStream, done: &AtomicBool) -> io::Result<()> {
    let (mut bytes, mut request) = ([0; 1_024], &CONNECT[..]);
    stream.set_read_timeout(Some(BETWEEN))?;
    while !done.load(Ordering::SeqCst) {
        stream.write_all(request)?;
        request = &PING;
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(())
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn overlapping_faults_of_a_connection_end_independently() {
    let (stub, target, wire) = (Stub::default(), nowhere(), Wire::new());
    let reach = FaultReach { proxy: Some(&wire.proxy), ..reach(&stub, &target) };
    let in_force = async || wire.proxy.in_force(Who::Client(0));
    let [lasting, passing] = kinds(|needs| needs == Capability::Proxies);
    assert!(lasting.contains(&"delay") && passing.contains(&"reset"), "{lasting:?} {passing:?}");
    let alone = async |kind, is_second| {
        let choice = asked(kind, is_second);
        let active = begin(&choice, &reach).await;
        let settings = in_force().await;
        assert_ne!(settings, Settings::default(), "{kind}");
        active.healing.await.unwrap();
        settings
    };
    for pair @ (one, other) in pairs(&lasting) {
        let [first, second] = [alone(one, false).await, alone(other, true).await];
        let seen = overlap(&reach, pair, &in_force).await;
        let both = Settings {
            delays: [&first.delays[..], &second.delays].concat(),
            bandwidth: first.bandwidth.into_iter().chain(second.bandwidth).min(),
            stalled: first.stalled || second.stalled,
            refused: first.refused || second.refused,
        };
        assert_eq!(seen, [first, both, second, Settings::default()], "{pair:?}");
    }
    for (one, other) in lasting.iter().flat_map(|one| passing.iter().map(move |other| (one, other))) {
        let choice = asked(one, false);
        let active = begin(&choice, &reach).await;
        let before = in_force().await;
        in_passing(other, &reach).await;
        assert_eq!(in_force().await, before, "{one}, then {other}");
        assert_eq!(active.still.await, Ok(()), "{one}, then {other}");
        active.healing.await.unwrap();
        assert_eq!(in_force().await, Settings::default(), "{one}, then {other}");
    }
}

/// Overlaps two faults on an ensemble of three servers. Faults hit server 2, unless their kind selects other servers.
/// The ensemble must be healthy afterwards.
async fn overlap_on(local: &Local, links: Option<&dyn Links>, pair: (&str, &str)) {
    let (stub, target) = (Stub::default(), nowhere());
    let reach = FaultReach { processes: Some(local), ..reach(&stub, &target) };
    eventually(WITHIN, || local.whole()).await.unwrap();
    let began = std::time::Instant::now();
    overlap(&reach, pair, async || ()).await;
    let whole = eventually(WITHIN, || local.whole()).await;
    assert!(whole.is_ok() && !reach.in_effect.is_any(), "{pair:?}: {whole:?}");
    if let Some(links) = links {
        links.all_reach().await.unwrap();
    }
    println!("{}, then {}: {:?}", pair.0, pair.1, began.elapsed());
}

#[tokio::test]
async fn overlapping_faults_of_a_server_process_end_independently() {
    let local = breakable::plain().await;
    for pair in [("pause", "pause"), ("kill", "pause"), ("pause", "kill")] {
        overlap_on(&local, None, pair).await;
    }
}

#[tokio::test]
#[ignore = "long: every pair of server faults"]
async fn overlapping_faults_of_servers_end_independently() {
    let Some(local) = breakable::apart().await else { return };
    let [lasting, passing] = kinds(Capability::reaches_servers);
    let every: Vec<&str> = lasting.iter().chain(&passing).copied().collect();
    // A momentary fault is over before the next fault starts. These two kinds wait until there is a leader.
    let needs_a_leader = |kind: &str| ["partition", "rolling-restart"].contains(&kind);
    // A wipe waits until every other server serves; see the test below.
    let needs_the_others = |kind: &str| kind == "wipe";
    let can_overlap = |(one, other): &(&str, &str)| {
        let waits = *one == "lose-majority" && (needs_a_leader(other) || needs_the_others(other));
        lasting.contains(one) && !waits && !(*one == "partition" && needs_the_others(other))
    };
    for pair in pairs(&every).into_iter().filter(can_overlap) {
        overlap_on(&local, Some(&**local), pair).await;
    }
}

#[tokio::test]
async fn second_wipe_waits_until_the_first_server_has_its_data_again() {
    let taken = breakable::plain().await;
    let local: &Local = &taken;
    let (stub, target) = (Stub::default(), nowhere());
    let reach = FaultReach { processes: Some(local), ..reach(&stub, &target) };
    eventually(WITHIN, || local.whole()).await.unwrap();
    // Given a server that has lost its data
    let first = asked("wipe", false);
    let second = FaultChoice { target: TargetOf::Server(3), ..asked("wipe", true) };
    let first = begin(&first, &reach).await;
    assert_proved(&first.proof, "the first");
    // Then a wipe of another server waits
    let mut second = Box::pin(begin(&second, &reach));
    let early = tokio::time::timeout(Duration::from_millis(500), &mut second).await;
    assert!(early.is_err(), "two of three servers have lost their data");
    local.serves(3).await.unwrap();
    // And the second wipe takes effect once the first server has its data again
    let (healed, second) = tokio::join!(first.healing, second);
    healed.unwrap();
    assert_proved(&second.proof, "the second");
    second.healing.await.unwrap();
    local.whole().await.unwrap();
}
