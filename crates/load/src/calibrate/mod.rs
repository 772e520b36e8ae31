//! Calibration: measures the raw ensemble, request by request and without a lock. The floor is the cheapest
//! handoff and the cheapest uncontended acquire that raw requests allow.
//!
//! [`calibrate`] measures everything on each server, for `zklockbench calibrate`. [`floor`] measures only the
//! floor, in about a second, for a run. Both use one thread, so all times come from one clock.
//! `docs/capacity-planning.md` describes each measurement. The caller creates and removes the parent of all
//! nodes.

mod handoff;
mod requests;
mod sessions;

use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use handoff::Handoffs;
use requests::{Alone, Saturated};
use sessions::{OPEN_WITHIN, ServerSessions};
use zklockbench_core::clock;
use zklockbench_core::error::Error;
use zklockbench_core::measure::{Histogram, new_histogram};
use zklockbench_core::units::counted;
use zklockbench_record::{Floor, PairFigures, RawRequest, RequestFigures, ServerFigures, Timing};
use zklockbench_zk::{admin, runtime};

pub use requests::{IN_FLIGHT, SESSIONS};
pub use sessions::CalibrationSite;

#[derive(Debug, Clone, PartialEq)]
pub struct CalibrationResult {
    pub floor: Floor,
    /// Usable servers, in the order of the connect string.
    pub servers: Vec<ServerFigures>,
    /// Handoffs between each pair of servers.
    pub pairs: Vec<PairFigures>,
    pub missing: Vec<String>,
}

/// Limits of an uninterrupted measurement, which takes at least one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Time after which no sample starts.
    pub lasts: Duration,
    pub rounds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalibrationPlan {
    /// Number of rounds, each of which repeats all measurements.
    pub rounds: u32,
    /// Whether to run and discard an eighth of a round first, to warm up the servers.
    pub rehearses: bool,
    /// Pause before each handoff and each uncontended acquire; `None` for no pause.
    pub rest: Option<Duration>,
    /// Limits for handoffs and uncontended acquires. Each repetition measures all pairs and all servers once.
    pub handoffs: Slice,
    /// Limits for each kind of request on each server, one request at a time.
    pub alone: Slice,
    /// Time for each kind of request on each server, with many requests in flight.
    pub saturation: Duration,
}

/// Shares of the time for handoffs, single requests and saturation. The remaining tenth is for setup and cleanup.
const SHARES: [f64; 3] = [0.3, 0.3, 0.3];
const REHEARSAL: u32 = 8;
/// Number of measurements per server: ten kinds of single requests, watches, sessions and `ruok`.
const ALONE: u32 = 13;
const SATURATED: u32 = 10;
/// Maximum number of samples per kind of request; more samples would add no information.
const SAMPLES: u64 = 500;
/// Number of `ruok` commands if the load is limited.
const RUOK_WHEN_LIMITED: u64 = 5;
/// Minimum number of handoffs for a floor, because a median of fewer handoffs means little.
const ENOUGH: u64 = 10;
/// Maximum share of the floor's time that may be spent on opening sessions.
const TO_OPEN: f64 = 0.5;

impl CalibrationPlan {
    pub fn within(budget: Duration, servers: usize, rest: Option<Duration>) -> Self {
        // A short calibration has no time for several rounds.
        let rounds = if budget >= Duration::from_secs(20) { 4 } else { 1 };
        let servers = u32::try_from(servers.max(1)).unwrap_or(u32::MAX);
        let in_a_round = |share| budget.mul_f64(share) * REHEARSAL / (rounds * REHEARSAL + 1);
        let [handoffs, alone, saturation] = SHARES.map(in_a_round);
        Self {
            rounds,
            rehearses: true,
            rest,
            handoffs: Slice { lasts: handoffs, rounds: u64::MAX },
            alone: Slice { lasts: alone / servers / ALONE, rounds: SAMPLES },
            saturation: saturation / servers / SATURATED,
        }
    }

    pub fn without_saturation(self) -> Self {
        Self { saturation: Duration::ZERO, ..self }
    }

    fn rehearsal(&self) -> Self {
        let short = |slice: Slice| Slice {
            lasts: slice.lasts / REHEARSAL,
            rounds: (slice.rounds / u64::from(REHEARSAL)).max(1),
        };
        Self {
            handoffs: short(self.handoffs),
            alone: short(self.alone),
            saturation: self.saturation / REHEARSAL,
            ..*self
        }
    }
}

/// Measures the floor within this time. A run does not need the floor, so a failure is not an error: the
/// floor then has no metrics and states the reason.
pub async fn floor(site: CalibrationSite, within: Duration, stop: &CancellationToken) -> Floor {
    let (begun, stop) = (clock::now(), stop.clone());
    let to_open = within.mul_f64(TO_OPEN);
    let measured = with_sessions(site, 2, to_open, async move |sessions: &ServerSessions| {
        let mut handoffs = Handoffs::between(sessions, None);
        let left = within.saturating_sub(Duration::from_micros(clock::now().saturating_sub(begun)));
        let slice = Slice { lasts: left, rounds: u64::MAX };
        let measuring = async {
            handoffs.prepare(sessions).await?;
            handoffs.measure(sessions, slice).await
        };
        let ended = stop.run_until_cancelled(runtime::timeout(left, measuring)).await;
        let failed = match ended {
            None => Some("the run was interrupted".to_owned()),
            Some(Some(Err(why))) => Some(why),
            Some(None | Some(Ok(()))) => None,
        };
        Ok((handoffs.floor(), failed, sessions.left_out.clone()))
    });
    let took_us = |floor| Floor { took_us: clock::now().saturating_sub(begun), ..floor };
    match measured.await {
        Ok((floor, failed, left_out)) => took_us(stated(floor, within, failed, &left_out)),
        Err(why) => took_us(Floor::not_measured(why)),
    }
}

fn stated(floor: Floor, within: Duration, failed: Option<String>, left_out: &[String]) -> Floor {
    if let Some(why) = failed {
        return Floor::not_measured(why);
    }
    let count = floor.handoff.map_or(0, |handoff| handoff.count);
    if count < ENOUGH {
        return Floor::not_measured(format!(
            "only {} fitted into {} ms; `zklockbench calibrate` measures for longer",
            counted(count, "handoff", "handoffs"),
            within.as_millis()
        ));
    }
    let missing = (!left_out.is_empty()).then(|| left_out.join("; "));
    Floor { missing, ..floor }
}

/// Measures everything on each server.
///
/// # Errors
/// [`Error::Environment`] if no server grants a session, or a request fails; [`Error::Interrupted`] if
/// stopped. The sessions and their nodes are gone in either case.
pub async fn calibrate(
    site: CalibrationSite,
    plan: CalibrationPlan,
    stop: &CancellationToken,
) -> Result<CalibrationResult, Error> {
    let token = stop.clone();
    let is_limited = site.throttle.is_some();
    // Every `ruok` opens a connection.
    let asking = if is_limited { Slice { rounds: RUOK_WHEN_LIMITED, ..plan.alone } } else { plan.alone };
    let measured = with_sessions(site, SESSIONS, OPEN_WITHIN, async move |sessions: &ServerSessions| {
        let mut figures = Figures::of(sessions, plan.rest);
        let ended = token.run_until_cancelled(measure(sessions, &plan, &mut figures)).await;
        let setup = (sessions.addresses(), sessions.left_out.clone());
        ended.transpose().map(|ended| ended.map(|()| (figures, setup)))
    });
    let Some((figures, (addresses, missing))) = measured.await.map_err(Error::Environment)? else {
        return Err(Error::Interrupted);
    };
    let words = async {
        let mut words = Vec::new();
        for address in &addresses {
            words.push(Words::of(address, asking).await);
        }
        words
    };
    let words = stop.run_until_cancelled(words).await.ok_or(Error::Interrupted)?;
    Ok(figures.told(addresses, words, missing))
}

struct Figures {
    handoffs: Handoffs,
    alone: Vec<Alone>,
    saturated: Vec<Saturated>,
}

impl Figures {
    fn of(sessions: &ServerSessions, rest: Option<Duration>) -> Self {
        Self {
            handoffs: Handoffs::between(sessions, rest),
            alone: sessions.servers.iter().map(|_| Alone::default()).collect(),
            saturated: sessions.servers.iter().map(|_| Saturated::default()).collect(),
        }
    }

    fn told(self, addresses: Vec<String>, words: Vec<Words>, mut missing: Vec<String>) -> CalibrationResult {
        let (floor, pairs) = (self.handoffs.floor(), self.handoffs.told(&addresses));
        let measured = self.alone.iter().zip(&self.saturated);
        let mut servers = Vec::new();
        for ((address, word), (alone, saturated)) in addresses.into_iter().zip(words).zip(measured) {
            missing.extend(word.silent);
            servers.push(ServerFigures {
                address,
                role: word.role,
                requests: request_figures(alone, saturated),
                watch: Timing::of(&alone.watch),
                session_open: Timing::of(&alone.session_open),
                session_close: Timing::of(&alone.session_close),
                ruok: Timing::of(&word.ruok),
            });
        }
        CalibrationResult { floor, servers, pairs, missing }
    }
}

fn request_figures(alone: &Alone, saturated: &Saturated) -> Vec<RequestFigures> {
    let measured = alone.requests.iter().zip(saturated.0);
    let figures = measured.zip(RawRequest::ALL).map(|((alone, saturated), request)| RequestFigures {
        request,
        alone: Timing::of(alone),
        saturated: saturated.saturation(),
    });
    figures.collect()
}

/// Takes all measurements: a discarded rehearsal, then rounds, so that drift affects all metrics equally.
async fn measure(
    sessions: &ServerSessions,
    plan: &CalibrationPlan,
    figures: &mut Figures,
) -> Result<(), String> {
    figures.handoffs.prepare(sessions).await?;
    requests::prepare(sessions).await?;
    if plan.rehearses {
        one_round(sessions, &plan.rehearsal(), &mut Figures::of(sessions, plan.rest)).await?;
    }
    for _ in 0..plan.rounds {
        one_round(sessions, plan, figures).await?;
    }
    Ok(())
}

async fn one_round(
    sessions: &ServerSessions,
    plan: &CalibrationPlan,
    figures: &mut Figures,
) -> Result<(), String> {
    figures.handoffs.measure(sessions, plan.handoffs).await?;
    for (server, alone) in figures.alone.iter_mut().enumerate() {
        alone.measure(sessions, server, plan.alone).await?;
    }
    for (server, saturated) in figures.saturated.iter_mut().enumerate() {
        saturated.measure(sessions, server, plan.saturation).await?;
    }
    Ok(())
}

struct Words {
    role: String,
    ruok: Histogram,
    /// Reason why the server does not answer `ruok`.
    silent: Option<String>,
}

impl Words {
    const PATIENCE: Duration = Duration::from_secs(2);

    async fn of(address: &str, slice: Slice) -> Self {
        let role = match admin::srvr(address, Self::PATIENCE).await {
            Ok(Some(srvr)) => srvr.mode,
            Ok(None) => "not serving".to_owned(),
            Err(error) => format!("not known: {error}"),
        };
        let mut words = Self { role, ruok: new_histogram(), silent: None };
        let end = clock::now() + clock::micros(slice.lasts);
        for _ in 0..slice.rounds {
            let begun = clock::now();
            if let Err(error) = admin::ruok(address, Self::PATIENCE).await {
                words.silent = Some(format!("ruok of {address}: {error}"));
                break;
            }
            words.ruok.saturating_record(clock::now().saturating_sub(begun));
            if clock::now() >= end {
                break;
            }
        }
        words
    }
}

/// Runs work with several sessions per server, on a separate thread with a runtime like a generator thread's.
async fn with_sessions<T, Work>(
    site: CalibrationSite,
    each: usize,
    within: Duration,
    work: Work,
) -> Result<T, String>
where
    T: Send + 'static,
    Work: AsyncFnOnce(&ServerSessions) -> Result<T, String> + Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    let started = std::thread::Builder::new().name("calibration".into()).spawn(move || {
        let worked = async {
            let sessions = ServerSessions::open(site, each, within).await?;
            let worked = work(&sessions).await;
            sessions.close().await;
            worked
        };
        // The receiver is gone if the user stopped the program twice.
        let _ = sender.send(runtime::block_on(worked));
    });
    started.map_err(|error| format!("cannot start a thread: {error}"))?;
    receiver.await.unwrap_or_else(|_| Err("the calibration thread ended early".to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn handoffs(count: u64) -> Floor {
        let handoff = Timing { count, p50_us: 900, p90_us: 950, p99_us: 990 };
        Floor { handoff: Some(handoff), ..Floor::default() }
    }

    #[test]
    fn floor_with_too_few_handoffs_is_not_reported() {
        let stated = stated(handoffs(3), Duration::from_millis(1_200), None, &[]);
        assert_eq!(stated.handoff, None);
        let why = stated.missing.unwrap();
        assert!(why.starts_with("only 3 handoffs fitted into 1200 ms"), "{why}");
    }

    #[test]
    fn servers_that_were_left_out_are_reported_with_the_floor() {
        let stated = stated(handoffs(300), Duration::from_secs(1), None, &["zk3:2181: no session".into()]);
        assert_eq!(stated.handoff.map(|handoff| handoff.count), Some(300));
        assert_eq!(stated.missing.as_deref(), Some("zk3:2181: no session"));
    }

    #[test]
    fn failed_measurement_yields_no_floor() {
        let stated = stated(handoffs(300), Duration::from_secs(1), Some("delete: no reply".into()), &[]);
        assert_eq!((stated.handoff, stated.missing.as_deref()), (None, Some("delete: no reply")));
    }

    proptest! {
        #[test]
        fn plan_fits_into_the_budget(seconds in 1_u64..600, servers in 1_usize..9) {
            let budget = Duration::from_secs(seconds);
            let plan = CalibrationPlan::within(budget, servers, None);
            let servers = u32::try_from(servers).unwrap();
            let a_round = |plan: &CalibrationPlan| {
                plan.handoffs.lasts + (plan.alone.lasts * ALONE + plan.saturation * SATURATED) * servers
            };
            prop_assert!(a_round(&plan) * plan.rounds + a_round(&plan.rehearsal()) <= budget);
            prop_assert!(plan.saturation > Duration::ZERO && plan.alone.rounds > 0);
        }
    }
}
