//! `ensemble up|status|down`: keeps a local ensemble running between runs.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::args::{EnsembleCommand, UpArgs};
use super::output;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::counted;
use zklockbench_ensemble::{Installation, KeptEnsemble, LocalSpec, NICER_BY, Places, Role, roles};

pub async fn execute(command: EnsembleCommand, stop: &CancellationToken) -> Result<Exit, Error> {
    match command {
        EnsembleCommand::Up(args) => {
            stop.run_until_cancelled(up(args)).await.unwrap_or(Err(Error::Interrupted))
        }
        EnsembleCommand::Status => status().await,
        EnsembleCommand::Down => down().await,
    }
}

async fn up(args: UpArgs) -> Result<Exit, Error> {
    let state = KeptEnsemble::state_file()?;
    if let Some(kept) = KeptEnsemble::load(&state)? {
        if kept.alive().len() == kept.servers.len() {
            return already_up(&kept, &args);
        }
        // Remove the leftovers of a crashed ensemble.
        kept.down(&state).await?;
    }
    let installation = Installation::find(&Places::of_this_machine(args.install.zookeeper_home))?;
    let (servers, data_dir) = (args.servers, args.data_dir);
    let spec = LocalSpec { servers, data_dir, logs: None, apart: false, nicer_by: NICER_BY };
    let kept = KeptEnsemble::up(&spec, &installation, &state).await?;
    show(&kept)
}

fn already_up(kept: &KeptEnsemble, args: &UpArgs) -> Result<Exit, Error> {
    const FIRST: &str = "stop it first: zklockbench ensemble down";
    let (servers, since) = (kept.servers.len(), &kept.since);
    if servers != args.servers {
        return Err(Error::environment(format!(
            "an ensemble of {} has been up since {since}; {FIRST}",
            counted(servers, "server", "servers")
        )));
    }
    if let Some(asked) = args.data_dir.as_deref().filter(|asked| !kept.lies_below(asked)) {
        let (asked, is) = (asked.display(), kept.directory.display());
        return Err(Error::environment(format!(
            "an ensemble has been up since {since}, but its data is in {is}, not below {asked}; {FIRST}"
        )));
    }
    output::note(&format!("already up since {since}"));
    show(kept)
}

fn show(kept: &KeptEnsemble) -> Result<Exit, Error> {
    output::tell("ensemble up", Exit::Held, kept, || {
        output::data(&kept.connect)?;
        output::note(&format!(
            "{} up; data in {}\n`zklockbench run` uses this ensemble; for other programs, use the connect string \
             above. Stop the ensemble with: zklockbench ensemble down",
            counted(kept.servers.len(), "server", "servers"),
            kept.placement
        ));
        Ok(())
    })
}

const STATUS: &str = "ensemble status";

async fn status() -> Result<Exit, Error> {
    let Some(kept) = KeptEnsemble::load(&KeptEnsemble::state_file()?)? else {
        return output::tell(STATUS, Exit::Environment, &json!({ "up": false }), || {
            output::data("no ensemble is up; start one with: zklockbench ensemble up")
        });
    };
    let addresses: Vec<String> = kept.servers.iter().map(|server| server.address.clone()).collect();
    let roles = roles(&addresses).await;
    let serving = roles.iter().all(|role| role.state.is_ok());
    let exit = if serving { Exit::Held } else { Exit::Environment };
    let servers: Vec<_> = roles.iter().map(machine).collect();
    let found = json!({ "up": serving, "ensemble": kept, "servers": servers });
    output::tell(STATUS, exit, &found, || output::data(&describe(&kept, &roles)))
}

fn machine(role: &Role) -> serde_json::Value {
    json!({ "address": role.address, "state": role.describe(), "version": role.version })
}

fn describe(kept: &KeptEnsemble, roles: &[Role]) -> String {
    let mut text = format!("{}\nup since {}; data in {}\n", kept.connect, kept.since, kept.placement);
    for (server, role) in kept.servers.iter().zip(roles) {
        let version = role.version.as_deref().unwrap_or("unknown version");
        text += &format!("{}  {}  {version}  process {}\n", role.address, role.describe(), server.pid);
    }
    text
}

async fn down() -> Result<Exit, Error> {
    let state = KeptEnsemble::state_file()?;
    let (ended, removed) = match KeptEnsemble::load(&state)? {
        None => {
            output::note("no ensemble is up; nothing to stop");
            (0, None)
        }
        Some(kept) => {
            let ended = kept.down(&state).await?;
            let servers = counted(ended, "server", "servers");
            output::note(&format!("stopped {servers} and removed {}", kept.directory.display()));
            (ended, Some(kept.directory))
        }
    };
    let found = json!({ "ended": ended, "removed": removed });
    output::tell("ensemble down", Exit::Held, &found, || Ok(()))
}
