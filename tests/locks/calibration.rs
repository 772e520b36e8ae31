//! The raw ensemble's performance, without any lock, and the resulting floor.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use zklockbench_core::error::Error;
use zklockbench_load::Workspace;
use zklockbench_load::calibrate::{
    CalibrationPlan, CalibrationResult, CalibrationSite, Slice, calibrate, floor,
};
use zklockbench_record::{RawRequest, ServerFigures, Timing};
use zklockbench_zk::{Target, keep_awake::EVERY};

use crate::support::ensemble::{self, Alone};
use crate::support::sessions::target;
use crate::support::trials::unique;

/// A workspace on servers that no other test uses at the same time.
struct Setup {
    alone: Alone,
    target: Target,
    workspace: Workspace,
}

impl Setup {
    /// A setup with three servers.
    async fn of_three() -> Self {
        Self::on(ensemble::alone_of(3).await).await
    }

    async fn on(alone: Alone) -> Self {
        let target = target(&alone.connect());
        let workspace = Workspace::create(target.clone(), &unique("calibration")).await.unwrap();
        Self { alone, target, workspace }
    }

    fn site(&self, place: &str) -> CalibrationSite {
        CalibrationSite {
            target: self.target.clone(),
            servers: self.alone.addresses(),
            place: place.to_owned(),
            keep_awake: Some(EVERY),
            throttle: None,
        }
    }

    async fn calibrate(
        &self,
        plan: CalibrationPlan,
        stop: &CancellationToken,
    ) -> Result<CalibrationResult, Error> {
        calibrate(self.site(self.workspace.root()), plan, stop).await
    }

    /// Number of ephemeral nodes that the servers still have.
    async fn ephemerals(&self) -> i64 {
        let mut most = 0;
        for server in self.alone.addresses() {
            let mntr = zklockbench_zk::admin::mntr(&server).await.unwrap();
            most = most.max(mntr.number("zk_ephemerals_count").unwrap());
        }
        most
    }

    /// Removes the workspace; returns the nodes that were left.
    async fn tidy(self) -> Vec<String> {
        let client = self.target.client(Duration::from_secs(10)).await.unwrap();
        let left = client.list_children(self.workspace.root()).await.unwrap();
        self.workspace.close().await.unwrap();
        left
    }
}

const LONG: Duration = Duration::from_secs(60);
/// Upper bound for one round of handoffs. The time is checked only after a complete round.
const ROUND: Duration = Duration::from_secs(10);

/// A plan with exact numbers of samples and no time limit.
fn exactly(handoffs: u64, alone: u64, rounds: u32) -> CalibrationPlan {
    CalibrationPlan {
        rounds,
        rehearses: true,
        rest: None,
        handoffs: Slice { lasts: LONG, rounds: handoffs },
        alone: Slice { lasts: LONG, rounds: alone },
        saturation: Duration::from_millis(100),
    }
}

fn p50(timing: Option<Timing>) -> f64 {
    timing.unwrap().p50_us as f64
}

fn alone(server: &ServerFigures, request: RawRequest) -> f64 {
    p50(server.of(request).unwrap().alone)
}

#[tokio::test]
async fn timings_exclude_the_pause_before_each_handoff() {
    // Given a pause that is longer than a handoff on any host
    let setup = Setup::on(ensemble::alone().await).await;
    let rest = Duration::from_millis(250);
    let rest_us = rest.as_micros() as f64;
    let short =
        CalibrationPlan { rehearses: false, saturation: Duration::from_millis(1), ..exactly(3, 1, 1) };
    // When the servers are calibrated with and without the pause
    let mut took = Vec::new();
    for rest in [None, Some(rest)] {
        let place = setup.workspace.place(if rest.is_some() { "rested" } else { "at-once" }).await.unwrap();
        let begun = Instant::now();
        let plan = CalibrationPlan { rest, ..short };
        let measured = calibrate(setup.site(&place), plan, &CancellationToken::new()).await.unwrap();
        took.push(begun.elapsed());
        // Then the timings do not include the pause
        let floor = &measured.floor;
        let is_shorter = |timing| p50(timing) < rest_us;
        assert!(is_shorter(floor.handoff) && is_shorter(floor.uncontended), "{floor:?}");
    }
    // And the pause precedes each of the three handoffs of each pair of servers, and each uncontended acquire
    let servers = setup.alone.addresses().len() as u32;
    assert!(took[1] > rest * (servers * servers + servers) * 3, "{took:?}");
    setup.tidy().await;
}

#[tokio::test]
#[ignore = "long: a complete calibration, after another one to warm up"]
async fn timings_of_a_calibration_are_consistent() {
    // Given warm servers, and a calibration with fixed numbers of samples
    let setup = Setup::of_three().await;
    let never = CancellationToken::new();
    setup.calibrate(exactly(40, 40, 1), &never).await.unwrap();
    let second = Setup { workspace: setup.workspace.clone(), ..setup };
    let place = second.workspace.place("again").await.unwrap();
    // When the servers are calibrated
    let measured = calibrate(second.site(&place), exactly(40, 60, 2), &never).await.unwrap();
    // Then the calibration has exactly these numbers of samples
    assert!(measured.missing.is_empty(), "{:?}", measured.missing);
    assert_eq!((measured.servers.len(), measured.pairs.len()), (3, 9));
    let count = |timing: Option<Timing>| timing.unwrap().count;
    for pair in &measured.pairs {
        assert_eq!([pair.handoff, pair.reply, pair.confirmed].map(count), [80; 3], "{pair:?}");
    }
    let floor = &measured.floor;
    let counts = [floor.handoff, floor.handoff_same_server, floor.handoff_other_server, floor.uncontended];
    assert_eq!(counts.map(count), [720, 240, 480, 240]);
    for server in &measured.servers {
        for request in &server.requests {
            assert_eq!(count(request.alone), 120, "{request:?}");
            assert!(request.saturated.unwrap().count > 0, "{request:?}");
        }
        let others = [server.watch, server.session_open, server.session_close];
        assert_eq!(others.map(count), [120; 3]);
        assert_eq!(count(server.ruok), 60);
    }
    // And composite operations take no less time than their parts. Medians of few samples vary on a shared
    // machine, so a factor of two is allowed.
    let handoff = p50(floor.handoff);
    for server in &measured.servers {
        println!("{} {}: {}", server.address, server.role, alone(server, RawRequest::Exists));
        assert!(alone(server, RawRequest::Exists) < 2.0 * handoff, "{server:?}\n{floor:?}");
        let of = |request| alone(server, request);
        let (short, long) = (of(RawRequest::GetChildren1), of(RawRequest::GetChildren1000));
        assert!(short < 2.0 * long, "1,000 names: {long}, 1 name: {short}");
        let opened = p50(server.session_open);
        assert!(of(RawRequest::Exists) < 2.0 * opened, "a session takes several round trips: {opened}");
    }
    let mean = |of: &dyn Fn(&ServerFigures) -> f64| measured.servers.iter().map(of).sum::<f64>() / 3.0;
    let (delete, read) =
        (mean(&|one| alone(one, RawRequest::Delete)), mean(&|one| alone(one, RawRequest::GetChildren1)));
    let watch = mean(&|one| p50(one.watch));
    println!("handoff {handoff}, delete {delete}, watch {watch}, getChildren {read}");
    assert!(handoff < 2.0 * (delete + watch), "handoff {handoff}, delete {delete}, watch {watch}");
    let (uncontended, create) = (p50(floor.uncontended), mean(&|one| alone(one, RawRequest::Create)));
    assert!(uncontended > 0.5 * (create + read), "{uncontended}: create {create}, getChildren {read}");
    let confirmed = measured.pairs.iter().map(|pair| (p50(pair.handoff), p50(pair.confirmed)));
    confirmed.for_each(|(event, read)| assert!(event < read, "{event} {read}"));
    // And one server leads
    assert_eq!(measured.servers.iter().filter(|server| server.leads()).count(), 1);
    assert_eq!(second.ephemerals().await, 0);
    second.tidy().await;
}

#[tokio::test]
async fn floor_measurement_stays_within_its_time_limit_and_leaves_no_nodes() {
    let setup = Setup::of_three().await;
    // Start with a run's time limit, and extend it as long as a busy host yields too few handoffs.
    let mut within = Duration::from_millis(1_200);
    let measured = loop {
        let place = setup.workspace.place("floor").await.unwrap();
        let measured = floor(setup.site(&place), within, &CancellationToken::new()).await;
        setup.workspace.clear(&place).await.unwrap();
        println!("{measured:?}");
        let took = Duration::from_micros(measured.took_us);
        assert!(took < 2 * within + ROUND, "{took:?} of {within:?}");
        match &measured.missing {
            None => break measured,
            Some(why) => {
                assert!(within < Duration::from_secs(15) && why.contains("handoffs fitted"), "{why}")
            }
        }
        within *= 4;
    };
    // Rounds are complete: three servers have nine pairs
    let [all, same, other] = [measured.handoff, measured.handoff_same_server, measured.handoff_other_server]
        .map(|timing| timing.unwrap().count);
    assert!(all >= 18 && all == same + other && other == 2 * same, "{measured:?}");
    assert_eq!(setup.ephemerals().await, 0);
    assert!(setup.tidy().await.is_empty());
}

#[tokio::test]
async fn calibration_reports_a_missing_server_and_measures_the_others() {
    let setup = Setup::of_three().await;
    let place = setup.workspace.place("floor").await.unwrap();
    let mut site = setup.site(&place);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    site.servers[0].clone_from(&silent);
    let measured = floor(site, Duration::from_secs(10), &CancellationToken::new()).await;
    assert!(measured.handoff.is_some(), "{measured:?}");
    assert!(measured.missing.unwrap().starts_with(&format!("no session on {silent}")));
    setup.tidy().await;
}

#[tokio::test]
async fn missing_floor_has_a_reason_when_the_ensemble_is_unreachable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    let site = CalibrationSite {
        target: target(&silent),
        servers: vec![silent.clone()],
        place: "/nowhere".into(),
        keep_awake: None,
        throttle: None,
    };
    let measured = floor(site, Duration::from_secs(1), &CancellationToken::new()).await;
    assert_eq!((measured.handoff, measured.uncontended), (None, None));
    assert!(measured.missing.unwrap().contains(&silent));
    assert!(measured.took_us < 60_000_000);
}

#[tokio::test]
async fn interrupted_calibration_leaves_no_session_or_ephemeral_node() {
    let setup = Setup::on(ensemble::alone().await).await;
    let stop = CancellationToken::new();
    let soon = async {
        // The thousand nodes that the calibration lists exist only midway through it
        while setup.ephemerals().await < 1_000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(setup.calibrate(exactly(10_000, 10_000, 1), &stop), soon);
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    assert_eq!(setup.ephemerals().await, 0);
    // The caller must remove all other leftovers, as after a run
    let root = setup.workspace.root().to_owned();
    let client = setup.target.client(Duration::from_secs(10)).await.unwrap();
    setup.tidy().await;
    assert_eq!(client.check_stat(&root).await.unwrap(), None);
}

#[tokio::test]
async fn calibration_error_contains_the_failed_request_and_server() {
    let setup = Setup::on(ensemble::alone().await).await;
    let site = setup.site("/there/is/no/such/place");
    let ended = calibrate(site, exactly(1, 1, 1), &CancellationToken::new()).await;
    let Err(Error::Environment(why)) = ended else { panic!("{ended:?}") };
    assert!(why.starts_with("create on 127.0.0.1:") && why.ends_with("no node"), "{why}");
    assert_eq!(setup.ephemerals().await, 0);
    setup.tidy().await;
}
