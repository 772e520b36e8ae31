//! The ensemble that a run uses: a fresh local one, the kept one, or one that others run.

use std::path::Path;
use std::sync::Arc;

use super::capabilities::Needs;
use super::host;
use super::progress::Progress;
use crate::cli::output;
use crate::cli::shared_args::OpeningArgs;
use crate::load::{Environment, TOP, Workspace};
use crate::record::{EnsembleInfo, ServerInfo};
use crate::scenario::{EnsembleChoice, Scenario};
use crate::words::error::Error;
use crate::words::units::counted;
use crate::world::ensemble::{
    Compose, External, Installation, Kept, Local, LocalSpec, NICER_BY, Places, Role, Started, namespace_of,
    roles,
};
use crate::world::zk::{Access, Secret, Target, admin, keep_awake};

pub enum OpenEnsemble {
    Fresh(Arc<Local>),
    Contained(Arc<Compose>),
    /// Kept by `ensemble up`.
    Kept(Kept),
    External(External),
}

impl OpenEnsemble {
    /// Starts or finds what the scenario asks for. Servers that it starts write their logs into that directory.
    ///
    /// # Errors
    /// When options don't fit, ZooKeeper is not found or does not start, or the connect string is wrong.
    pub async fn open(
        scenario: &Scenario,
        args: &OpeningArgs,
        needs: &Needs,
        logs: &Path,
        progress: &Progress,
    ) -> Result<Self, Error> {
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

    /// The connect string, chroot included.
    pub fn connect(&self) -> String {
        match self {
            Self::Fresh(local) => local.connect(),
            Self::Contained(compose) => compose.connect(),
            Self::Kept(kept) => kept.connect.clone(),
            Self::External(external) => external.connect.clone(),
        }
    }

    /// How sessions to it are let in. On servers that were started for this run it has an identity of its own where the user
    /// gave none: other users of this host reach these servers, and may not delete what decides who holds a lock.
    pub fn access(&self, given: Access) -> Access {
        let digest = given.digest.or_else(|| self.is_fresh().then(Secret::drawn));
        Access { digest, ..given }
    }

    pub fn addresses(&self) -> Vec<String> {
        match self {
            Self::Fresh(local) => local.addresses(),
            Self::Contained(compose) => compose.addresses(),
            Self::Kept(kept) => kept.servers.iter().map(|server| server.address.clone()).collect(),
            Self::External(external) => external.addresses.clone(),
        }
    }

    pub fn started(&self) -> Option<Arc<dyn Started>> {
        match self {
            Self::Fresh(local) => Some(Arc::clone(local) as Arc<dyn Started>),
            Self::Contained(compose) => Some(Arc::clone(compose) as Arc<dyn Started>),
            Self::Kept(_) | Self::External(_) => None,
        }
    }

    /// The chroot, empty for none.
    pub fn chroot(&self) -> String {
        if let Self::External(external) = self { external.chroot.clone() } else { String::new() }
    }

    /// Whether it was started for this run and goes with it.
    pub fn is_fresh(&self) -> bool {
        matches!(self, Self::Fresh(_) | Self::Contained(_))
    }

    pub fn is_external(&self) -> bool {
        matches!(self, Self::External(_))
    }

    /// Whether these servers are ours and of a version that can forget a request.
    pub fn keep_awake(&self, servers: &[ServerInfo]) -> bool {
        !self.is_external() && servers.iter().any(|server| keep_awake::is_needed(&server.version))
    }

    /// Where requests are sent to it that belong to no trial: to warm it up, or to measure it.
    pub fn environment(&self, target: Target, workspace: Workspace, servers: &[ServerInfo]) -> Environment {
        Environment {
            target,
            workspace,
            servers: self.addresses(),
            namespace: namespace_of(&self.chroot(), TOP),
            threads: (host::cores() / 4).max(1),
            keep_awake: self.keep_awake(servers).then_some(keep_awake::EVERY),
            local: self.started(),
            keeps_history: false,
            scratch: std::env::temp_dir(),
            proxy: None,
            rendezvous: None,
        }
    }

    /// Removes what such requests have left; where that cannot be done, says how to do it later.
    pub async fn clear(&self, environment: &Environment, name: &str) {
        if let Err(error) = environment.workspace.close().await {
            output::note(&format!(
                "warning: {error}; remove what is left later with: zklockbench clean --connect {} --run-id {name}",
                self.connect()
            ));
        }
    }

    pub fn ended(&self) -> Option<String> {
        match self {
            Self::Fresh(local) => local.ended(),
            Self::Contained(compose) => compose.ended(),
            Self::Kept(_) | Self::External(_) => None,
        }
    }

    pub async fn answers(&self) -> bool {
        roles(&self.addresses()).await.iter().any(|role| role.state.is_ok())
    }

    pub async fn describe(&self) -> EnsembleInfo {
        let roles = roles(&self.addresses()).await;
        let (kind, placement, shares_host, mut config) = match self {
            Self::Fresh(local) => ("local", local.placement().to_owned(), true, local.config()),
            Self::Contained(compose) => {
                let config = [compose.config().await, told(&compose.addresses()).await].concat();
                ("compose", compose.placement(), true, config)
            }
            Self::Kept(kept) => ("kept", kept.placement.clone(), true, kept.config.clone()),
            Self::External(external) => {
                ("external", "not known".to_owned(), external.shares_host(), told(&external.addresses).await)
            }
        };
        let servers: Vec<ServerInfo> = roles.iter().map(server_info).collect();
        if self.keep_awake(&servers) {
            let how =
                format!("a read every {} ms on each server (ZOOKEEPER-4537)", keep_awake::EVERY.as_millis());
            config.push(("kept awake by".to_owned(), how));
        }
        if self.is_fresh() {
            config.push(("nodes may be touched by".to_owned(), "an identity of the run".to_owned()));
        }
        EnsembleInfo {
            kind: kind.into(),
            connect: self.connect(),
            servers,
            placement,
            shares_host,
            config,
            ..EnsembleInfo::default()
        }
    }

    /// Ends what was started for this run. What servers in containers said is written into that directory first;
    /// those of other kinds have done so themselves.
    pub fn close(self, logs: &Path) {
        match self {
            Self::Fresh(local) => local.close(),
            Self::Contained(compose) => {
                if let Err(error) = compose.save_logs(logs) {
                    output::note(&format!("warning: the servers' logs could not be kept: {error}"));
                }
                if let Err(why) = compose.close() {
                    output::note(&format!("warning: containers stay behind until the next run: {why}"));
                }
            }
            Self::Kept(_) | Self::External(_) => {}
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
