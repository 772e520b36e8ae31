//! `counter-near-end`: the sequence counters of the locks' directories are raised to just before their end.

use std::time::Duration;

use zookeeper_client::Client;

use super::aim::proof;
use super::outage::{COMES_BACK, lift};
use super::reach::{Effect, FaultReach, How};
use super::{Active, FaultEntry, Firing};
use crate::words::catalog::ParamValue;
use crate::words::catalog::fault::{Ends, FaultCard, FaultChoice};
use crate::words::catalog::{Param, ParamKind};
use crate::words::clock;
use crate::world::ensemble::{eventually, raise_counters};
use crate::world::zk::{Failure, counter, sequence_of};

pub const NAME: &str = "counter-near-end";

const LEFT: Param = Param {
    name: "left",
    kind: ParamKind::Count(0, 10_000_000),
    default: "20",
    doc: "How many more children can be created in each directory until its counter is used up.",
};

pub const CARD: FaultCard = FaultCard {
    name: NAME,
    summary: "takes the sequence counters of the locks' directories to just below 2^31",
    source: "ZooKeeper's DataTree.createNode and PrepRequestProcessor, as seen on 3.8.0",
    details: "\
Inject: all servers are stopped (SIGTERM). A transaction log with a high parentCVersion for each directory is put behind the
newest transaction; the server that has it is started first, then the others.
Proof: the directories' stats show the new counter.
Ends by itself, when the ensemble is whole. Only for servers that the suite has started as processes of this host.

A correct lock: goes on until the counter is used up, and from then on fails every acquire, leaves no node behind and never
lets two in. A counter does not wrap: every further node gets the number 2147483647, or a negative one, and a restart does
not heal that.
Where it misleads: the ensemble is down for a few seconds, so sessions with a short timeout end.",
    ends: Ends::ByItself,
    stops_service: true,
    params: &[LEFT],
    ..FaultCard::FIXED
};

const GOES_DOWN: Duration = Duration::from_secs(20);
const SESSION: Duration = Duration::from_secs(20);
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, .. }: Firing<'_>) -> Result<Active<'_>, String> {
    let processes = reach.processes()?;
    let data = processes.data().ok_or("the servers' data are not on this host")?;
    let number = i32::try_from(counter::END - left(choice)).map_err(|_| "`left` is out of range")?;
    let directories = directories(reach).await?;
    let effects: Vec<Effect> = (1..=processes.servers()).map(Effect::Down).collect();
    let seen_at = clock::now();
    let raised = async {
        for server in 1..=processes.servers() {
            reach.begin_down(server, How::Stopped).await?;
        }
        for server in 1..=processes.servers() {
            eventually(GOES_DOWN, || processes.is_down(server)).await?;
        }
        let newest = raise_counters(&data, &directories, number)
            .map_err(|error| format!("cannot write a log: {error}"))?;
        reach.end(Effect::Down(newest)).await?;
        Ok::<usize, String>(newest)
    };
    let raised = raised.await;
    let others = effects
        .into_iter()
        .filter(|effect| raised.as_ref().ok().is_none_or(|newest| *effect != Effect::Down(*newest)));
    let lifted = lift(reach, others.collect()).await;
    let seen = match raised.and(lifted) {
        Ok(()) => eventually(COMES_BACK, || is_raised(reach, &directories, number)).await,
        Err(why) => Err(why),
    };
    Ok(Active { seen_at: Some(seen_at), ..Active::over("all servers".into(), proof(seen)) })
}

fn left(choice: &FaultChoice) -> i64 {
    match choice.params.get(LEFT.name) {
        Some(ParamValue::Count(left)) => i64::try_from(*left).unwrap_or(i64::MAX),
        _ => 20,
    }
}

async fn open(reach: &FaultReach<'_>) -> Result<Client, String> {
    let opened = tokio::time::timeout(ANSWERS_WITHIN, reach.target.client(SESSION)).await;
    opened.map_err(|_| "no session".to_owned())?.map_err(|failure| failure.to_string())
}

/// The directories of the locks, and those in them.
async fn directories(reach: &FaultReach<'_>) -> Result<Vec<String>, String> {
    let client = open(reach).await?;
    let why = |error| Failure::from(error).to_string();
    let mut all = reach.contenders.locks();
    for lock in reach.contenders.locks() {
        for name in client.list_children(&lock).await.map_err(why)? {
            let path = format!("{lock}/{name}");
            let is_directory = sequence_of(&name).is_none();
            if is_directory
                && client.check_stat(&path).await.map_err(why)?.is_some_and(|stat| stat.ephemeral_owner == 0)
            {
                all.push(path);
            }
        }
    }
    Ok(all)
}

async fn is_raised(reach: &FaultReach<'_>, directories: &[String], number: i32) -> Result<String, String> {
    let client = open(reach).await?;
    for directory in directories {
        let stat = client.check_stat(directory).await.map_err(|error| Failure::from(error).to_string())?;
        let left = stat.as_ref().map(counter::left);
        if left.is_none_or(|left| counter::END - left < i64::from(number)) {
            return Err(format!("the counter of {directory} was not raised: {left:?} left"));
        }
    }
    let count = directories.len();
    Ok(format!("the counters of {count} directories are at {number} or beyond, by their stats"))
}
