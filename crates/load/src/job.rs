//! Runs of a job that several workers execute together. One process publishes the runs on the ensemble, one
//! after another; the workers execute their parts until the end of the job is announced.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use zookeeper_client::{Acls, Client, CreateMode, Error as ClientError};

use super::workspace::{SHOWS_LIFE, WORKERS_TOP, ensure, is_there, open_for, refused, remove_root};
use zklockbench_core::error::Error;
use zklockbench_core::units::run_id;
use zklockbench_zk::{CaughtUp, Target};

/// Session timeout, during which the leader still counts as alive after its process has ended.
const SESSION: Duration = Duration::from_secs(10);
/// Poll interval for the next run, far shorter than the time between two runs.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Time for the workers to notice the end of the job.
const HEARD_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedRun {
    #[serde(deserialize_with = "plain_name")]
    pub run_id: String,
    pub scenario: String,
}

/// Reads a name that workers use for a directory. Other clients of the ensemble can write it.
fn plain_name<'de, D: Deserializer<'de>>(name: D) -> Result<String, D::Error> {
    run_id(&String::deserialize(name)?).map_err(|wrong| serde::de::Error::custom(format!("run_id {wrong}")))
}

pub struct Job {
    target: Target,
    client: Client,
    root: String,
}

impl Job {
    async fn at(target: &Target, name: &str) -> Result<Self, Error> {
        let client = open_for(target, SESSION).await?;
        Ok(Self { target: target.clone(), client, root: format!("{WORKERS_TOP}/{name}") })
    }

    /// Returns the path of one of the job's nodes: `runs`, `leader` or `ended`.
    fn node(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    async fn make(&self, name: &str, data: &[u8], mode: CreateMode) -> Result<(), Error> {
        let path = self.node(name);
        let made = self.client.create(&path, data, &mode.with_acls(Acls::anyone_all())).await;
        made.map(drop).map_err(|error| refused(&self.target, "create", &path, error))
    }

    pub async fn begin(target: &Target, name: &str) -> Result<Self, Error> {
        let job = Self::at(target, name).await?;
        ensure(&job.client, target, WORKERS_TOP, &[]).await?;
        if !ensure(&job.client, target, &job.root, SHOWS_LIFE).await? {
            return Err(Error::usage(format!(
                "a job `{name}` already exists on {}: choose another name, or remove the nodes of a killed job \
                 with: zklockbench clean --connect {} --run-id {name}",
                target.connect, target.connect
            )));
        }
        job.make("runs", &[], CreateMode::Persistent).await?;
        job.make("leader", &[], CreateMode::Ephemeral).await?;
        Ok(job)
    }

    pub async fn end(self) -> Result<(), Error> {
        self.make("ended", &[], CreateMode::Persistent).await?;
        tokio::time::sleep(HEARD_WITHIN).await;
        let removed = remove_root(&self.client, &self.root).await;
        removed.map_err(|error| refused(&self.target, "delete", &self.root, error))
    }

    pub async fn publish(target: &Target, name: &str, run: &PublishedRun) -> Result<(), Error> {
        let job = Self::at(target, name).await?;
        let data = serde_json::to_vec(run).map_err(Error::environment)?;
        job.make("runs/run-", &data, CreateMode::PersistentSequential).await
    }

    pub async fn follow(target: &Target, name: &str, wait: Duration) -> Result<Self, Error> {
        let job = Self::at(target, name).await?;
        let begun = async {
            while !job.has("leader").await? {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Ok(())
        };
        match tokio::time::timeout(wait, begun).await {
            Ok(Ok(())) => Ok(job),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::environment(format!(
                "no job `{name}` was started on {} in time: start the leading command with --job {name}",
                target.connect
            ))),
        }
    }

    async fn has(&self, name: &str) -> Result<bool, Error> {
        let path = self.node(name);
        is_there(&self.client, &path).await.map_err(|error| refused(&self.target, "check", &path, error))
    }

    /// Waits for the first run published after `after`. Returns its node and the run; `None` if the job has ended.
    pub async fn next(&self, after: Option<&str>) -> Result<Option<(String, PublishedRun)>, Error> {
        let directory = self.node("runs");
        let refused = |what: &str, path: &str, error| refused(&self.target, what, path, error);
        loop {
            // Check in this order, so that the last run before the end is not missed.
            let (is_over, leads) = (self.has("ended").await?, self.has("leader").await?);
            let now = CaughtUp::with(&self.client).await;
            let now = now.map_err(|error| refused("list", &directory, error))?;
            let mut runs = match now.children(&directory).await {
                Ok(runs) => runs,
                Err(ClientError::NoNode) => return Ok(None),
                Err(error) => return Err(refused("list", &directory, error)),
            };
            runs.sort_unstable();
            if let Some(node) = runs.into_iter().find(|node| after.is_none_or(|after| node.as_str() > after))
            {
                let path = format!("{directory}/{node}");
                let data = now.data(&path).await.map_err(|error| refused("read", &path, error))?;
                let run = serde_json::from_slice(&data)
                    .map_err(|error| Error::usage(format!("{path} is not a run of this version: {error}")))?;
                return Ok(Some((node, run)));
            }
            if is_over {
                return Ok(None);
            }
            if !leads {
                return Err(Error::Unknown("the command leading the job has ended".into()));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_run_whose_name_is_a_path_is_rejected() {
        let run = PublishedRun { run_id: "sweep-1.2_a".into(), scenario: "name = \"x\"\n".into() };
        let data = serde_json::to_vec(&run).unwrap();
        assert_eq!(serde_json::from_slice::<PublishedRun>(&data).unwrap(), run);
        for path in ["/tmp/x", "../../x", "..", "a/b", ""] {
            let data = serde_json::to_vec(&PublishedRun { run_id: path.into(), ..run.clone() }).unwrap();
            let why = serde_json::from_slice::<PublishedRun>(&data).unwrap_err().to_string();
            assert!(why.starts_with("run_id must be 1 to 100 letters"), "{path}: {why}");
        }
    }
}
