//! The ensemble that a run uses: a fresh local one, the kept one, or one that others run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::capabilities::Needs;
use super::host;
use super::progress::Progress;
use crate::cli::output;
use crate::cli::shared_args::OpeningArgs;
use crate::load::{Environment, TOP, Workspace, make_chroot};
use crate::record::{EnsembleInfo, ServerInfo};
use crate::scenario::{EnsembleChoice, Scenario};
use crate::words::error::Error;
use crate::words::units::counted;
use crate::world::ensemble::{
    Compose, External, Installation, Kept, Local, LocalSpec, NICER_BY, Places, Role, Started, namespace_of,
    roles,
};
use crate::world::zk::{Access, Secret, Target, admin, keep_awake};

/// An ensemble that is open.
pub struct OpenEnsemble {
    servers: Servers,
    /// How sessions to it are opened.
    pub target: Target,
    pub addresses: Vec<String>,
    /// The servers themselves, if they were started for this run and go with it.
    pub started: Option<Arc<dyn Started>>,
    /// Whether servers of ours stay as they are after a start.
    pub is_cold: bool,
    /// The directory of the servers' logs.
    logs: PathBuf,
}

enum Servers {
    Fresh(Arc<Local>),
    Contained(Arc<Compose>),
    /// Kept by `ensemble up`.
    Kept(Kept),
    External(External),
}

impl OpenEnsemble {
    /// Starts or finds what the scenario asks for, unless it is to stop meanwhile. Servers that it starts write their logs into
    /// that directory.
    ///
    /// On servers that are started sessions have an identity of their own where the user gave none: other users of this host
    /// reach these servers, and may not delete what decides who holds a lock.
    ///
    /// # Errors
    /// When options don't fit, ZooKeeper is not found or does not start, or the connect string is wrong.
    pub async fn open(
        scenario: &Scenario,
        args: &OpeningArgs,
        access: Access,
        logs: PathBuf,
        progress: &Progress,
        stop: &CancellationToken,
    ) -> Result<Self, Error> {
        let opening = async {
            let servers = Servers::open(scenario, args, &logs, progress).await?;
            let started = servers.started();
            let digest = access.digest.or_else(|| started.is_some().then(Secret::drawn));
            let (connect, addresses) = match &servers {
                Servers::Fresh(local) => (local.connect(), local.addresses()),
                Servers::Contained(compose) => (compose.connect(), compose.addresses()),
                Servers::Kept(Kept { connect, servers, .. }) => {
                    (connect.clone(), servers.iter().map(|server| server.address.clone()).collect())
                }
                Servers::External(external) => (external.connect.clone(), external.addresses.clone()),
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
        matches!(self.servers, Servers::External(_))
    }

    /// How often these servers get a read, if they are ours and of a version that can forget a request.
    pub fn keep_awake(&self, servers: &[ServerInfo]) -> Option<Duration> {
        let is_needed = servers.iter().any(|server| keep_awake::is_needed(&server.version));
        (is_needed && !self.is_external()).then_some(keep_awake::EVERY)
    }

    /// Where requests are sent to it that belong to no trial: to warm it up, or to measure it.
    pub fn environment(&self, workspace: Workspace, servers: &[ServerInfo]) -> Environment {
        let chroot = if let Servers::External(external) = &self.servers { &external.chroot } else { "" };
        Environment {
            target: self.target.clone(),
            workspace,
            servers: self.addresses.clone(),
            namespace: namespace_of(chroot, TOP),
            threads: (host::cores() / 4).max(1),
            keep_awake: self.keep_awake(servers),
            local: self.started.clone(),
            keeps_history: false,
            scratch: std::env::temp_dir(),
            proxy: None,
            rendezvous: None,
        }
    }

    /// Removes what such requests have left; where that cannot be done, says how to do it later.
    pub async fn clear(&self, workspace: &Workspace) {
        if let Err(error) = workspace.close().await {
            let name = workspace.root().rsplit('/').next().unwrap_or_default();
            output::note(&format!(
                "warning: {error}; remove what is left later with: zklockbench clean --connect {} --run-id {name}",
                self.target.connect
            ));
        }
    }

    pub fn ended(&self) -> Option<String> {
        match &self.servers {
            Servers::Fresh(local) => local.ended(),
            Servers::Contained(compose) => compose.ended(),
            Servers::Kept(_) | Servers::External(_) => None,
        }
    }

    pub async fn answers(&self) -> bool {
        roles(&self.addresses).await.iter().any(|role| role.state.is_ok())
    }

    pub async fn describe(&self) -> EnsembleInfo {
        let roles = roles(&self.addresses).await;
        let (kind, placement, shares_host, mut config) = match &self.servers {
            Servers::Fresh(local) => ("local", local.placement().to_owned(), true, local.config()),
            Servers::Contained(compose) => {
                let config = [compose.config().await, told(&self.addresses).await].concat();
                ("compose", compose.placement(), true, config)
            }
            Servers::Kept(kept) => ("kept", kept.placement.clone(), true, kept.config.clone()),
            Servers::External(external) => {
                ("external", "not known".to_owned(), external.shares_host(), told(&self.addresses).await)
            }
        };
        let servers: Vec<ServerInfo> = roles.iter().map(server_info).collect();
        if let Some(every) = self.keep_awake(&servers) {
            let how = format!("a read every {} ms on each server (ZOOKEEPER-4537)", every.as_millis());
            config.push(("kept awake by".to_owned(), how));
        }
        if self.started.is_some() {
            config.push(("nodes may be touched by".to_owned(), "an identity of the run".to_owned()));
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

    /// Ends what was started for this run. What servers in containers said is kept first; those of other kinds have done so
    /// themselves.
    pub fn close(self) {
        match self.servers {
            Servers::Fresh(local) => local.close(),
            Servers::Contained(compose) => {
                if let Err(error) = compose.save_logs(&self.logs) {
                    output::note(&format!("warning: the servers' logs could not be kept: {error}"));
                }
                if let Err(why) = compose.close() {
                    output::note(&format!("warning: containers stay behind until the next run: {why}"));
                }
            }
            Servers::Kept(_) | Servers::External(_) => {}
        }
    }
}

impl Servers {
    async fn open(
        scenario: &Scenario,
        args: &OpeningArgs,
        logs: &Path,
        progress: &Progress,
    ) -> Result<Self, Error> {
        let needs = Needs::of(scenario);
        match &scenario.ensemble {
            EnsembleChoice::Connect(connect) => {
                let external = External::parse(connect)?;
                external.reach().await?;
                Ok(Self::External(external))
            }
            _ if args.access.wants_tls() => {
                Err(Error::usage("TLS needs an existing ensemble: add --connect"))
            }
            EnsembleChoice::Compose(file) => {
                progress.note(&format!("creating the containers of {}", file.display()));
                let compose = Compose::create(file).await?;
                needs.check_containers(scenario, &compose)?;
                let (servers, project) = (compose.addresses().len(), compose.project());
                progress.note(&format!("containers to start: {servers} (project {project})"));
                compose.start().await?;
                Ok(Self::Contained(Arc::new(compose)))
            }
            EnsembleChoice::Local { servers, data_dir } => {
                if let Some(kept) = fitting(*servers, data_dir.is_some() || needs.own_servers(), args)? {
                    progress.note(&format!(
                        "using the ensemble that is up since {} (--fresh starts another)",
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

    fn started(&self) -> Option<Arc<dyn Started>> {
        match self {
            Self::Fresh(local) => Some(Arc::clone(local) as Arc<dyn Started>),
            Self::Contained(compose) => Some(Arc::clone(compose) as Arc<dyn Started>),
            Self::Kept(_) | Self::External(_) => None,
        }
    }
}

/// The kept ensemble, if it is what the run would start by itself.
fn fitting(servers: usize, needs_its_own: bool, args: &OpeningArgs) -> Result<Option<Kept>, Error> {
    if args.fresh || needs_its_own || args.install.zookeeper_home.is_some() {
        return Ok(None);
    }
    let kept = Kept::load(&Kept::state_file()?)?;
    Ok(kept.filter(|kept| kept.servers.len() == servers && kept.alive().len() == servers))
}

fn server_info(role: &Role) -> ServerInfo {
    ServerInfo {
        address: role.address.clone(),
        role: role.describe(),
        version: role.version.clone().unwrap_or_else(|| "not known".into()),
    }
}

/// The configuration that the first server tells that tells any.
async fn told(addresses: &[String]) -> Vec<(String, String)> {
    for address in addresses {
        if let Ok(config) = admin::conf(address).await {
            return config;
        }
    }
    Vec::new()
}
