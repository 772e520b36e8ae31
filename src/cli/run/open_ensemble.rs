//! Opens the ensemble of a run: a fresh local ensemble, the kept one, or an external one. Also checks that the
//! ensemble supports the scenario's faults, warms up the servers, and measures the floor.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::host;
use super::progress::Progress;
use crate::cli::shared_args::{AccessArgs, GeneratorArgs, OpeningArgs, PlaceArgs};
use crate::cli::{drivers, output};
use zklockbench_core::catalog::fault::{Capability, FaultCard, FaultChoice, Target as FaultTarget};
use zklockbench_core::connect::Connect;
use zklockbench_core::error::Error;
use zklockbench_core::units::{counted, shown};
use zklockbench_ensemble::fault;
use zklockbench_ensemble::proxy::Proxy;
use zklockbench_ensemble::{
    Compose, Hosts, Installation, KeptEnsemble, Local, LocalSpec, NICER_BY, Places, Processes, Role, expand,
    links_capability, namespace_of, parse_connect, reach_servers, roles, servers_of_one_ensemble,
};
use zklockbench_load::calibrate::CalibrationSite;
use zklockbench_load::{
    Environment, EnvironmentEvent, FLOOR, LoadLimits, TOP, Workspace, calibrate, granted_timeout,
    make_chroot, run_trial,
};
use zklockbench_locks::DrivenLocks;
use zklockbench_record::{EnsembleInfo, Floor, ServerInfo, UNCOUNTED, WITHOUT_LOGS};
use zklockbench_scenario::{EnsembleChoice, Scenario, TrialPlan, parse};
use zklockbench_zk::{Access, Secret, Target, admin, keep_awake, reach};

pub struct OpenEnsemble {
    servers: Servers,
    pub target: Target,
    pub addresses: Vec<String>,
    /// Control over the servers; `None` if the servers were not started for this run.
    pub started: Option<Arc<dyn Processes>>,
    /// Whether the warm-up of local servers is skipped.
    pub is_cold: bool,
    logs: PathBuf,
}

enum Servers {
    Fresh(Arc<Local>),
    Contained(Arc<Compose>),
    /// Ensemble started by `ensemble up`.
    Kept(KeptEnsemble),
    External {
        connect: Connect,
        /// Whether server N is the Nth address of the connect string.
        is_as_listed: bool,
        /// Session timeout granted to the first session.
        granted: Duration,
    },
}

/// Opens an ensemble for a command that examines locks, runs `work` in an empty directory there, and closes
/// the ensemble. A local ensemble has one server unless the options specify another number.
pub async fn examine<T>(
    command: &str,
    place: &PlaceArgs,
    opening: &OpeningArgs,
    stop: &CancellationToken,
    needs: &Needs,
    work: impl AsyncFnOnce(&OpenEnsemble, &Progress, &str) -> Result<T, Error>,
) -> Result<T, Error> {
    let access = opening.access.access(None)?;
    let mut place = place.clone();
    if place.connect.is_none() && place.compose.is_none() {
        place.servers = place.servers.or(Some(1));
    }
    let scenario = place.scenario(command)?;
    let progress = Progress::new(&TrialPlan::of(&scenario), opening.quiet, false);
    let logs = tempfile::tempdir()
        .map_err(|error| Error::environment(format!("cannot create a directory for logs: {error}")))?;
    let logs_at = logs.path().into();
    let opened = OpenEnsemble::open(&scenario, needs, opening, access, logs_at, &progress, stop).await?;
    let done = async {
        let name = format!("{command}-{:08x}", rand::random::<u32>());
        let workspace = Workspace::create(opened.target.clone(), &name).await?;
        let done = work(&opened, &progress, workspace.root()).await;
        // Nodes on local servers disappear with the servers.
        if opened.started.is_none() {
            opened.clear(&workspace).await;
        }
        done
    };
    let done = done.await;
    opened.close();
    done
}

impl OpenEnsemble {
    /// Opens the ensemble of the scenario. Servers started here write their logs into `logs`. Sessions with these
    /// servers get a random identity unless the user provides one: other users of this host can connect, but must
    /// not be able to delete a lock's nodes.
    pub async fn open(
        scenario: &Scenario,
        needs: &Needs,
        args: &OpeningArgs,
        mut access: Access,
        logs: PathBuf,
        progress: &Progress,
        stop: &CancellationToken,
    ) -> Result<Self, Error> {
        let opening = async {
            let servers = Servers::open(scenario, needs, args, &mut access, &logs, progress).await?;
            let started = servers.started();
            let digest = access.digest.or_else(|| started.is_some().then(Secret::drawn));
            let (connect, addresses) = match &servers {
                Servers::Fresh(local) => (local.connect(), local.addresses()),
                Servers::Contained(compose) => (compose.connect(), compose.addresses()),
                Servers::Kept(KeptEnsemble { connect, servers, .. }) => {
                    (connect.clone(), servers.iter().map(|server| server.address.clone()).collect())
                }
                Servers::External { connect, .. } => (connect.text(), connect.addresses.clone()),
            };
            let target = Target { connect, access: Access { digest, ..access } };
            if args.create_chroot {
                make_chroot(&target).await?;
            }
            Ok::<_, Error>(Self { servers, target, addresses, started, is_cold: args.cold, logs })
        };
        stop.run_until_cancelled(opening).await.unwrap_or(Err(Error::Interrupted))
    }

    pub fn is_external(&self) -> bool {
        matches!(self.servers, Servers::External { .. })
    }

    /// Returns whether the servers were started with the suite's own configuration.
    pub fn is_ours(&self) -> bool {
        matches!(self.servers, Servers::Fresh(_))
    }

    /// Returns the session timeout that the servers grant instead of the scenario's.
    pub async fn granted_timeout(&self, asked: Duration) -> Result<Duration, Error> {
        if let Servers::External { granted, .. } = &self.servers {
            return Ok(*granted);
        }
        granted_timeout(&self.target, asked).await
    }

    /// Reads the commands for faults on external servers, unless the servers' numbers are ambiguous. If a fault breaks
    /// servers, checks that the servers are healthy.
    pub async fn host_commands(
        &self,
        file: Option<&Path>,
        needs: &Needs,
    ) -> Result<Option<Arc<Hosts>>, Error> {
        let (Some(file), Servers::External { is_as_listed, .. }) = (file, &self.servers) else {
            return Ok(None);
        };
        refuse_if!(
            !is_as_listed,
            "{}: server numbers are ambiguous, because the connect string does not list each server once (found {}): \
             list one address of each server",
            file.display(),
            shown(&self.addresses.join(", "), 200)
        );
        let hosts = Hosts::read(file, &self.addresses)?;
        if needs.own_servers() {
            hosts.check().await?;
        }
        Ok(Some(Arc::new(hosts)))
    }

    /// Returns notes on servers that the suite did not configure: addresses, roles and
    /// unavailable information.
    pub fn notes(&self, info: &EnsembleInfo) -> Vec<String> {
        let servers = self.is_external().then(|| info.servers_as_text());
        let missing =
            info.config.iter().filter(|(name, _)| [UNCOUNTED, WITHOUT_LOGS].contains(&name.as_str()));
        servers.into_iter().chain(missing.map(|(name, why)| format!("{name} {why}"))).collect()
    }

    /// Returns the interval of the reads that keep local servers awake; `None` if no server needs them.
    pub fn keep_awake(&self, servers: &[ServerInfo]) -> Option<Duration> {
        let is_needed = servers.iter().any(|server| keep_awake::is_needed(&server.version));
        (is_needed && !self.is_external()).then_some(keep_awake::EVERY)
    }

    /// Returns the environment for requests outside trials, which warm up or measure the ensemble.
    pub fn environment(&self, workspace: Workspace, servers: &[ServerInfo]) -> Environment {
        let chroot = if let Servers::External { connect, .. } = &self.servers { &connect.chroot } else { "" };
        Environment {
            target: self.target.clone(),
            workspace,
            servers: self.addresses.clone(),
            namespace: namespace_of(chroot, TOP),
            threads: host::usual_threads(),
            keep_awake: self.keep_awake(servers),
            local: self.started.clone(),
            keeps_history: false,
            scratch: std::env::temp_dir(),
            proxy: None,
            rendezvous: None,
            outlasts_faults: false,
            limits: LoadLimits::default(),
        }
    }

    /// Removes the nodes created by requests outside trials; after an error, prints the command that removes them.
    pub async fn clear(&self, workspace: &Workspace) {
        if let Err(error) = workspace.close().await {
            let name = workspace.root().rsplit('/').next().unwrap_or_default();
            output::warn(format!(
                "{error}; remove the remaining nodes later with: zklockbench clean --connect {} --run-id {name}",
                self.target.connect_from(0)
            ));
        }
    }

    pub fn ended(&self) -> Option<String> {
        self.started.as_ref()?.ended_by_itself()
    }

    pub async fn answers(&self) -> bool {
        roles(&self.addresses).await.iter().any(|role| role.state.is_ok())
    }

    pub async fn describe(&self) -> EnsembleInfo {
        let mut roles = roles(&self.addresses).await;
        // The run must record each server's version, so ask again if a busy server missed the first request.
        for role in roles.iter_mut().filter(|role| role.version.is_none()) {
            *role = Role::ask(&role.address).await;
        }
        let (kind, placement, mut config) = match &self.servers {
            Servers::Fresh(local) => ("local", local.placement().to_owned(), local.config()),
            Servers::Contained(compose) => {
                let config = [compose.config().await, told(&self.addresses).await].concat();
                ("compose", compose.placement(), config)
            }
            Servers::Kept(kept) => ("kept", kept.placement.clone(), kept.config.clone()),
            Servers::External { .. } => ("external", "not known".to_owned(), told(&self.addresses).await),
        };
        let mut servers: Vec<ServerInfo> = roles.iter().map(server_info).collect();
        for server in &mut servers {
            server.shares_host = Some(!self.is_external() || reach::is_on_this_host(&server.address).await);
        }
        let shares_host = servers.iter().any(|server| server.shares_host == Some(true));
        config.extend(self.servers.not_available(&roles));
        if let Some(every) = self.keep_awake(&servers) {
            let how = format!("a read every {} ms on each server (ZOOKEEPER-4537)", every.as_millis());
            config.push(("kept awake by".to_owned(), how));
        }
        if self.started.is_some() {
            config.push(("nodes are accessible to".to_owned(), "an identity of the run".to_owned()));
        }
        EnsembleInfo {
            kind: kind.into(),
            connect: self.target.connect.clone(),
            servers,
            placement,
            shares_host,
            config,
            starts_cold: self.is_cold && !self.is_external(),
        }
    }

    /// Stops the servers that were started for this run, and saves the logs of containers.
    pub fn close(self) {
        match self.servers {
            Servers::Fresh(local) => local.close(),
            Servers::Contained(compose) => {
                if let Err(error) = compose.save_logs(&self.logs) {
                    output::warn(format!("the servers' logs could not be saved: {error}"));
                }
                if let Err(why) = compose.close() {
                    output::warn(format!("containers remain until the next run: {why}"));
                }
            }
            Servers::Kept(_) | Servers::External { .. } => {}
        }
    }
}

impl Servers {
    async fn open(
        scenario: &Scenario,
        needs: &Needs,
        args: &OpeningArgs,
        access: &mut Access,
        logs: &Path,
        progress: &Progress,
    ) -> Result<Self, Error> {
        let is_ours = !scenario.ensemble.is_external();
        refuse_if!(is_ours && args.access.wants_tls(), "TLS needs an existing ensemble: add --connect");
        refuse_if!(is_ours && args.access.sasl.is_some(), "--sasl needs an existing ensemble: add --connect");
        match &scenario.ensemble {
            EnsembleChoice::Connect(connect) => external(connect, scenario.session_timeout, access).await,
            EnsembleChoice::Compose(file) => {
                progress.note(&format!("creating the containers of {}", file.display()));
                let compose = Compose::create(file).await?;
                // Before any of the containers starts.
                check_faults(scenario, compose.addresses().len(), |_, card| {
                    check_containers(card, &compose)
                })?;
                let (servers, project) = (compose.addresses().len(), compose.project());
                progress.note(&format!("containers to start: {servers} (project {project})"));
                compose.start(&|text| progress.note(text)).await?;
                Ok(Self::Contained(Arc::new(compose)))
            }
            EnsembleChoice::Local { servers, data_dir } => {
                if let Some(kept) = fitting(*servers, data_dir.is_some() || needs.own_servers(), args)? {
                    progress.note(&format!(
                        "using the ensemble that has been up since {} (--fresh starts a new one)",
                        kept.since
                    ));
                    return Ok(Self::Kept(kept));
                }
                let places = Places::of_this_machine(args.install.zookeeper_home.clone());
                let installation = Installation::find(&places)?;
                let count = counted(*servers, "server", "servers");
                progress.note(&format!("starting {count}: {}", installation.origin));
                let logs = Some(logs.to_path_buf());
                let (servers, data_dir, apart) = (*servers, data_dir.clone(), needs.links());
                let spec = LocalSpec { servers, data_dir, logs, apart, nicer_by: NICER_BY };
                Ok(Self::Fresh(Arc::new(Local::start(&spec, &installation).await?)))
            }
        }
    }

    /// Returns which information about these servers is unavailable, and why.
    fn not_available(&self, roles: &[Role]) -> Vec<(String, String)> {
        let logs = match self {
            Self::Contained(compose) => compose.without_logs(),
            Self::Fresh(_) | Self::Kept(_) | Self::External { .. } => None,
        };
        let counters = roles.iter().any(Role::hides_counters).then(|| {
            format!("not all servers allow `mntr` (zoo.cfg: 4lw.commands.whitelist={})", admin::WORDS)
        });
        let pairs = [(UNCOUNTED, counters), (WITHOUT_LOGS, logs)];
        let told =
            |(name, why): (&str, Option<String>)| Some((name.to_owned(), format!("not available: {}", why?)));
        pairs.into_iter().filter_map(told).collect()
    }

    fn started(&self) -> Option<Arc<dyn Processes>> {
        match self {
            Self::Fresh(local) => Some(Arc::clone(local) as Arc<dyn Processes>),
            Self::Contained(compose) => Some(Arc::clone(compose) as Arc<dyn Processes>),
            Self::Kept(_) | Self::External { .. } => None,
        }
    }
}

/// Connects to the servers of a connect string. At the addresses of a name, TLS then expects certificates with the
/// name. Opens a session before anything else: servers that grant none would delay each further step.
async fn external(connect: &str, session_timeout: Duration, access: &mut Access) -> Result<Servers, Error> {
    let listed = parse_connect(connect)?;
    // Both resolve the names, and a silent DNS server delays each.
    let ((found, originals), reached) = tokio::join!(expand(listed.clone()), reach_servers(&listed));
    reached?;
    if let Some(tls) = &mut access.tls {
        *tls = tls.at(&found.addresses, &originals);
        admin::speak_tls(tls);
    }
    let target = Target { connect: found.text(), access: access.clone() };
    let granted = granted_timeout(&target, session_timeout).await?;
    match servers_of_one_ensemble(&target, &found.addresses).await {
        Ok(addresses) => {
            let is_as_listed = are_as_listed(&listed.addresses, &found.addresses, &originals, &addresses);
            Ok(Servers::External { connect: Connect { addresses, ..found }, is_as_listed, granted })
        }
        Err(why) => Err(Error::usage(format!("cannot use {connect}: {why}"))),
    }
}

/// Returns whether the servers are numbered like the listed addresses. If one name stands for all servers, only the
/// servers have numbers.
fn are_as_listed(listed: &[String], found: &[String], originals: &[String], servers: &[String]) -> bool {
    let of_servers = found.iter().zip(originals).filter(|(address, _)| servers.contains(address));
    listed.len() == 1 || of_servers.map(|(_, original)| original).eq(listed)
}

/// Returns the kept ensemble if it is equivalent to the ensemble that the run would start.
fn fitting(servers: usize, needs_its_own: bool, args: &OpeningArgs) -> Result<Option<KeptEnsemble>, Error> {
    if args.fresh || needs_its_own || args.install.zookeeper_home.is_some() {
        return Ok(None);
    }
    let kept = KeptEnsemble::load(&KeptEnsemble::state_file()?)?;
    Ok(kept.filter(|kept| kept.servers.len() == servers && kept.alive().len() == servers))
}

fn server_info(role: &Role) -> ServerInfo {
    ServerInfo {
        address: role.address.clone(),
        role: role.describe(),
        version: role.version.clone().unwrap_or_else(|| EnsembleInfo::NOT_KNOWN.into()),
        shares_host: None,
    }
}

/// Returns the configuration from the first server that answers.
async fn told(addresses: &[String]) -> Vec<(String, String)> {
    for address in addresses {
        if let Ok(config) = admin::conf(address).await {
            return config;
        }
    }
    Vec::new()
}

/// What faults or examinations require of the servers.
#[derive(Default)]
pub struct Needs(BTreeSet<Capability>);

impl Needs {
    pub fn of(scenario: &Scenario) -> Self {
        let need = |kind: &String| fault::find(kind).map(|entry| entry.card.needs);
        Self(scenario.faults.iter().filter_map(|choice| need(&choice.kind)).collect())
    }

    /// Requires servers that can be cut off from each other.
    pub fn separable_servers() -> Self {
        Self([Capability::Links].into())
    }

    /// Returns whether faults affect servers. Such servers must be started for the run.
    pub fn own_servers(&self) -> bool {
        self.0.iter().any(|need| need.reaches_servers())
    }

    /// Returns whether servers are cut off from each other. Each server then needs a separate network.
    pub fn links(&self) -> bool {
        self.0.contains(&Capability::Links) || self.0.contains(&Capability::Isolation)
    }

    /// Returns the number of open files of a contender's session with this many servers: its own socket and, with
    /// a proxy, the proxy's two sockets and one listener per server.
    pub fn files_of_a_session(&self, servers: usize) -> usize {
        if self.0.contains(&Capability::Proxies) { 3 + servers } else { 1 }
    }

    /// Starts a proxy in front of the servers if a fault needs one.
    pub fn proxy(&self, servers: &[String]) -> Result<Option<Arc<Proxy>>, Error> {
        if !self.0.contains(&Capability::Proxies) {
            return Ok(None);
        }
        Proxy::before(servers).map(|proxy| Some(Arc::new(proxy)))
    }

    /// Returns why this machine cannot inject all faults; `None` if it can. For containers, Docker manages the links.
    pub fn missing_here(&self, scenario: &Scenario) -> Option<String> {
        let links = if self.links() && scenario.ensemble.is_local() { links_capability() } else { Ok(()) };
        links.err().map(|why| format!("servers cannot be partitioned here: {why}"))
    }

    /// Checks the `--hosts` file, which contains commands for faults on external servers.
    pub async fn check_host_commands(&self, scenario: &Scenario, file: Option<&Path>) -> Result<(), Error> {
        let EnsembleChoice::Connect(connect) = &scenario.ensemble else { return Ok(()) };
        match file {
            Some(file) => {
                let (found, _) = expand(parse_connect(connect)?).await;
                let hosts = Hosts::read(file, &found.addresses)?;
                check_faults(scenario, found.addresses.len(), |choice, _| hosts.check_fault(choice))
                    .map_err(|error| error.about(&file.display().to_string()))
            }
            None if self.own_servers() => Err(Error::usage(
                "the scenario breaks servers that this run does not start: provide commands with --hosts FILE",
            )),
            None => Ok(()),
        }
    }

    /// Rejects scenarios that are impossible on this machine or with these driver locks, before anything is
    /// started.
    pub fn check(
        &self,
        scenario: &Scenario,
        driven: &DrivenLocks,
        generator: &GeneratorArgs,
        access: &AccessArgs,
    ) -> Result<(), Error> {
        if let Some(missing) = self.missing_here(scenario) {
            return Err(Error::Environment(missing));
        }
        refuse_if!(
            scenario.ensemble.is_external() && !self.0.is_empty() && !generator.allow_faults,
            "the scenario injects faults, but this run does not start the ensemble: --allow-faults permits faults \
             on the run's own contenders and connections; add --hosts FILE for faults on servers"
        );
        let reads =
            |choice: &&FaultChoice| fault::find(&choice.kind).is_some_and(|entry| entry.card.reads_requests);
        if let Some(choice) = scenario.faults.iter().find(reads).filter(|_| access.wants_tls()) {
            return Err(Error::usage(format!(
                "the fault `{}` must read requests, but TLS encrypts them: remove the fault or do not use TLS",
                choice.kind
            )));
        }
        refuse_if!(
            self.0.contains(&Capability::Proxies) && access.wants_kerberos(),
            "Kerberos needs the servers' names, but connection faults require a proxy: remove the faults or \
             --sasl gssapi"
        );
        drivers::check_access(drivers::names(scenario), driven, access)
    }
}

/// Checks the scenario's Compose file. Returns why this machine cannot run it; `None` if it can.
pub async fn check_compose_file(scenario: &Scenario) -> Result<Option<String>, Error> {
    let EnsembleChoice::Compose(file) = &scenario.ensemble else { return Ok(None) };
    Compose::check(file).await
}

/// Rejects faults that are impossible with this number of servers, or that `check` rejects.
fn check_faults(
    scenario: &Scenario,
    servers: usize,
    check: impl Fn(&FaultChoice, &FaultCard) -> Result<(), String>,
) -> Result<(), Error> {
    for choice in &scenario.faults {
        let Some(entry) = fault::find(&choice.kind) else { continue };
        fits(choice, &entry.card, servers)
            .and_then(|()| check(choice, &entry.card))
            .map_err(|why| Error::usage(format!("`{}` cannot be injected here: {why}", choice.label)))?;
    }
    Ok(())
}

fn fits(choice: &FaultChoice, card: &FaultCard, servers: usize) -> Result<(), String> {
    if servers < card.least_servers {
        let least = counted(card.least_servers, "server", "servers");
        let there = if servers == 1 { "is" } else { "are" };
        return Err(format!("the fault needs at least {least}, but there {there} {servers}"));
    }
    if let FaultTarget::Server(number) = choice.target
        && number > servers
    {
        return Err(format!("there is no server {number}: servers are numbered 1 to {servers}"));
    }
    Ok(())
}

fn check_containers(card: &FaultCard, compose: &Compose) -> Result<(), String> {
    match card.needs {
        Capability::Processes => compose.can_be_ended(),
        Capability::Isolation => compose.can_be_isolated(),
        // Scenarios whose needs cannot be met were already rejected by the parser.
        Capability::Links | Capability::Proxies | Capability::Contenders => Ok(()),
    }
}

const WARM_UP: &str = "warm-up";

/// Returns a scenario that warms up servers. Several locks keep servers busier than a single queue.
pub fn warm_up_scenario(name: &str, lasts: Duration) -> String {
    format!(
        "name = \"{name}\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 16\nlocks = 8\nhold = \"0ms\"\n\
         duration = \"{}s\"\nwarm_up = \"0s\"\nrepetitions = 1\n",
        lasts.as_secs()
    )
}

const ROUND: Duration = Duration::from_secs(3);
/// Number of acquisitions after which the rate stops rising: the JIT compiler counts calls, not time.
const ENOUGH: u64 = 8_000;
/// Maximum number of rounds, for slow hosts.
const ROUNDS_AT_MOST: usize = 4;

/// Puts load on a local ensemble in rounds until it is warm, unless it should stay cold. Discards the results.
///
/// A JVM compiles code as it runs: on two cores, a fresh ensemble is several times slower in its first seconds.
/// External ensembles are not warmed up, because they get no load other than the scenario and the floor.
pub async fn warm_up(
    ensemble: &OpenEnsemble,
    environment: &Environment,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<(), Error> {
    if ensemble.is_external() || ensemble.is_cold || stop.is_cancelled() {
        return Ok(());
    }
    progress.note("warming up the servers, up to 12 s");
    let parsed = parse(WARM_UP, &warm_up_scenario(WARM_UP, ROUND), &zklockbench_load::catalog())
        .map_err(Error::usage)?;
    let mut acquired = 0;
    for spec in TrialPlan::of(&parsed.scenario).trials.iter().cycle().take(ROUNDS_AT_MOST) {
        if acquired >= ENOUGH || stop.is_cancelled() {
            break;
        }
        let Some(entry) = zklockbench_locks::find(&spec.strategy.name) else { continue };
        let ignore = |_: EnvironmentEvent<'_>| {};
        let trial = run_trial(environment, spec, entry, stop, &ignore).await;
        let trial = trial.map_err(|error| environment.blame(error))?;
        match trial.cut_short {
            Some(cut) if !stop.is_cancelled() => {
                let why = format!("the servers' warm-up was cut short: {}", cut.why);
                return Err(environment.blame(Error::environment(why)));
            }
            _ => acquired += trial.measured.acquired(),
        }
    }
    Ok(())
}

/// Time limit for measuring the floor; setup and cleanup take another quarter of a second.
const FLOOR_WITHIN: Duration = Duration::from_millis(1_200);

/// Measures the floor. If the measurement fails, the result contains the reason, and the run continues.
pub async fn measure_floor(
    ensemble: &OpenEnsemble,
    environment: &Environment,
    stop: &CancellationToken,
) -> Floor {
    if ensemble.is_cold {
        return Floor::not_measured("the servers were not warmed up (--cold)");
    }
    if stop.is_cancelled() {
        return Floor::not_measured("the run was interrupted");
    }
    let measured = measured_floor(environment, stop).await;
    measured.unwrap_or_else(|error| Floor::not_measured(error.to_string()))
}

/// Returns the parts of the environment that a calibration below `place` needs.
pub fn calibration_site(environment: &Environment, place: &str) -> CalibrationSite {
    CalibrationSite {
        target: environment.target.clone(),
        servers: environment.servers.clone(),
        place: place.to_owned(),
        keep_awake: environment.keep_awake,
        throttle: environment.limits.throttle.clone(),
    }
}

async fn measured_floor(environment: &Environment, stop: &CancellationToken) -> Result<Floor, Error> {
    let place = environment.workspace.place(FLOOR).await?;
    let site = calibration_site(environment, &place);
    let floor = calibrate::floor(site, FLOOR_WITHIN, stop).await;
    environment.workspace.clear(&place).await?;
    Ok(floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_scenario_has_one_trial() {
        let parsed = parse(WARM_UP, &warm_up_scenario(WARM_UP, ROUND), &zklockbench_load::catalog())
            .unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(TrialPlan::of(&parsed.scenario).trials.len(), 1);
    }

    #[tokio::test]
    async fn host_commands_refer_to_addresses() {
        let parsed = parse(WARM_UP, &warm_up_scenario(WARM_UP, ROUND), &zklockbench_load::catalog());
        let mut scenario = parsed.unwrap_or_else(|mistakes| panic!("{mistakes}")).scenario;
        // The second host is a duplicate
        scenario.ensemble = EnsembleChoice::Connect("localhost:1,127.0.0.1:1".into());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[hosts.server-2]\nstart = \"true\"\n").unwrap();
        let checked = Needs::of(&scenario).check_host_commands(&scenario, Some(file.path())).await;
        assert!(checked.unwrap_err().to_string().contains("lists 1 server"));
    }

    #[test]
    fn servers_are_numbered_as_listed_only_if_each_is_listed_once() {
        let of = |listed: &[&str], found: &[(&str, &str)], servers: &[&str]| {
            let owned = |texts: &[&str]| -> Vec<String> { texts.iter().map(|text| (*text).into()).collect() };
            let (addresses, originals): (Vec<&str>, Vec<&str>) = found.iter().copied().unzip();
            are_as_listed(&owned(listed), &owned(&addresses), &owned(&originals), &owned(servers))
        };
        let found = [("a:1", "a:1"), ("b:1", "b:1")];
        assert!(of(&["a:1", "b:1"], &found, &["a:1", "b:1"]));
        assert!(!of(&["a:1", "b:1"], &found, &["a:1"]), "one server");
        assert!(!of(&["a:1", "a:1", "b:1"], &found, &["a:1", "b:1"]), "a duplicate");
        let found = [("1.1.1.1:1", "a:1"), ("1.1.1.2:1", "a:1"), ("b:1", "b:1")];
        assert!(of(&["a:1", "b:1"], &found, &["1.1.1.1:1", "b:1"]), "a host in two networks");
        assert!(!of(&["a:1", "b:1"], &found, &["1.1.1.1:1", "1.1.1.2:1", "b:1"]), "a name of two servers");
        assert!(of(&["a:1"], &found[..2], &["1.1.1.1:1", "1.1.1.2:1"]));
    }

    #[tokio::test]
    async fn host_commands_are_refused_if_server_numbers_are_ambiguous() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[hosts.server-2]\nstart = \"true\"\n").unwrap();
        let addresses = vec!["a:1".to_owned(), "b:1".to_owned()];
        for is_as_listed in [true, false] {
            let connect = Connect { addresses: addresses.clone(), chroot: String::new() };
            let opened = OpenEnsemble {
                target: Target { connect: connect.text(), access: Access::default() },
                servers: Servers::External { connect, is_as_listed, granted: Duration::ZERO },
                addresses: addresses.clone(),
                started: None,
                is_cold: false,
                logs: PathBuf::new(),
            };
            match opened.host_commands(Some(file.path()), &Needs::default()).await {
                Ok(hosts) => assert!(is_as_listed && hosts.is_some()),
                Err(why) => assert!(!is_as_listed && why.to_string().contains("(found a:1, b:1)"), "{why}"),
            }
        }
    }
}
