//! Ensembles that other programs disturb, or that refuse some contenders: no trial is dropped, and the results
//! report the disturbance.

use crate::support::ensemble;
use std::path::Path;
use std::time::Duration;

use crate::support::program::{Bench, eventually, signal, walk};
use crate::support::sessions::target;
use rustix::process::Signal;
use zklockbench_ensemble::{Installation, Local, LocalSpec, Places, Processes};
use zklockbench_record::{Cause, Trial};
use zookeeper_client::Client;

const THREE: &str = "name = \"three\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 4\nhold = \"100ms\"\n\
                     duration = \"3s\"\nrepetitions = 3\n[ensemble]\nservers = 1\n";

#[test]
fn outage_in_one_repetition_is_reported_and_all_repetitions_are_kept() {
    // Given a run in its second repetition
    let bench = Bench::with(THREE);
    let child = bench.watch(&["run", "scenario.toml", "--data-dir", "data", "--no-progress", "-v"]);
    eventually("the second repetition measures", Duration::from_secs(90), || {
        child.has_said("trial 1: measure")
    });
    std::thread::sleep(Duration::from_millis(500));
    // When the server is paused for 1.5 s
    let server = bench.servers()[0];
    signal(server, Signal::STOP);
    std::thread::sleep(Duration::from_millis(1_500));
    signal(server, Signal::CONT);
    let (code, said) = child.end();
    // Then every repetition is complete
    let trials = bench.stored().trials;
    assert_eq!(trials.len(), 3, "{said}");
    for trial in &trials {
        assert_eq!(&trial.cut_short, &None, "{said}");
    }
    // And the second repetition shows the outage: a long time without any acquisition
    let longest = |trial: &Trial| trial.tallies.iter().map(|tally| tally.longest_wait_us).max().unwrap_or(0);
    assert!(longest(&trials[1]) >= 1_400_000, "{}", longest(&trials[1]));
    let stood = trials[1].standstill.as_ref().map(|stood| stood.lasted_us);
    assert!(stood.is_some_and(|us| us >= 1_200_000), "{stood:?}");
    // A busy host may cause shorter ones in the other repetitions.
    for other in [&trials[0], &trials[2]] {
        assert!(other.standstill.as_ref().map(|stood| stood.lasted_us) < stood, "{:?}", other.standstill);
    }
    let table = std::fs::read_to_string(bench.results()[0].join("summary.md")).unwrap();
    assert!(table.contains("outage: predecessor-watch, 4 contenders, repetition 2: for "), "{table}");
    assert!(matches!(code, Some(0 | 4)), "{said}");
}

/// Maximum number of connections from one host to each server.
const ROOM: usize = 10;

/// Starts three servers that accept only [`ROOM`] connections and do not report this limit.
async fn narrow(data: &Path) -> Local {
    let installation = Installation::find(&Places::of_this_machine(None)).unwrap();
    let spec =
        LocalSpec { servers: 3, data_dir: Some(data.to_owned()), logs: None, apart: false, nicer_by: 0 };
    let local = Local::start(&spec, &installation).await.unwrap();
    for config in walk(data).into_iter().filter(|path| path.ends_with("zoo.cfg")) {
        let text = std::fs::read_to_string(&config).unwrap();
        assert!(text.contains("maxClientCnxns=0"), "{text}");
        let narrow = text.replace("maxClientCnxns=0", &format!("maxClientCnxns={ROOM}"));
        std::fs::write(&config, narrow.replace(",conf,", ",")).unwrap();
    }
    for server in 1..=3 {
        local.kill(server).await.unwrap();
        local.start(server).await.unwrap();
        let mut told = local.whole().await;
        for _ in 0..300 {
            if told.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            told = local.whole().await;
        }
        told.unwrap();
    }
    local
}

/// Opens as many sessions on a server as it accepts, minus `but`.
async fn fill(server: &str, but: usize) -> Vec<Client> {
    let target = target(server);
    let mut clients = Vec::new();
    // Connect one by one, because a server may exceed its limit if connections arrive together.
    while clients.len() < ROOM - but {
        clients.push(target.client(Duration::from_secs(20)).await.unwrap());
    }
    clients
}

#[tokio::test]
#[ignore = "long: contenders wait until full servers accept them"]
async fn run_is_partial_if_servers_refuse_some_contenders() {
    // Given nearly full servers
    let data = tempfile::tempdir_in(ensemble::fast_dir().unwrap_or_else(std::env::temp_dir)).unwrap();
    let local = narrow(data.path()).await;
    let addresses = local.addresses();
    let mut others = Vec::new();
    for (server, but) in addresses.iter().zip([1, 0, 0]) {
        others.extend(fill(server, but).await);
    }
    // When a run has 50 contenders, and six other clients disconnect while the contenders wait
    let bench = Bench::with(
        "name = \"crowd\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 50\nhold = \"20ms\"\n\
         duration = \"2s\"\nrepetitions = 1\nsession_timeout = \"4s\"\n",
    );
    let arguments = ["run", "scenario.toml", "--connect", &local.connect(), "--no-progress"];
    let child = bench.watch(&arguments);
    tokio::time::sleep(Duration::from_secs(3)).await;
    for _ in 0..6 {
        drop(others.pop());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let (code, said) = tokio::task::spawn_blocking(move || child.end()).await.unwrap();
    drop(others);
    // Then the trial reports how many contenders took part, and is partial
    let trial = bench.stored().trials.remove(0);
    let took_part = trial.took_part();
    println!("{took_part} of 50 took part");
    assert!((1..50).contains(&took_part), "{took_part}: {said}");
    assert_eq!(trial.cut_short.as_ref().map(|cut| cut.cause), Some(Cause::TooFewSessions), "{said}");
    assert!(trial.measured.acquired() > 0, "the other contenders were not measured: {said}");
    assert_eq!(trial.judged.verdict.word(), "unknown", "{said}");
    assert!(said.contains(&format!("only {took_part} of 50 contenders took part")), "{said}");
    assert!(said.contains("no further connections from this host (maxClientCnxns): raise"), "{said}");
    let table = std::fs::read_to_string(bench.results()[0].join("summary.md")).unwrap();
    assert!(table.contains(&format!("| {took_part} of 50 |")) && table.contains("1 partial"), "{table}");
    assert_eq!(code, Some(4), "{said}");
}
