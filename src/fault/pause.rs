//! `pause`: a server's process stands still, and goes on when the fault ends.

use std::time::Duration;

use super::outage::{there_and_down, until_whole};
use super::seen::{do_and_see, do_each, proof};
use super::{Active, Entry, Firing, aim};
use crate::catalog::fault::FaultCard;

/// Description.
pub const CARD: FaultCard = FaultCard {
    name: "pause",
    summary: "a server stands still (SIGSTOP) and goes on (SIGCONT), as in a long garbage collection",
    source: "Jepsen's pause nemesis",
    details: "\
Inject: SIGSTOP to the server's Java process. Its sockets stay open and swallow what is sent.
Proof: the system says that the process is stopped, and the server does not answer.
Heal: SIGCONT; healed when the ensemble is whole. It is sent however the trial ends, for a stopped process
cannot even be ended in order.

A right lock: nobody is told. Contenders of that server notice when nothing is answered for two thirds of
their session timeout, and move. A leader is deposed after `syncLimit` ticks. When it goes on it takes itself
for the leader for up to a tick, and who reads from it then reads the past; its writes find no majority. A
lock that decides by a read must not be let in by an old list.
Where it misleads: a pause that is shorter than what the others tolerate shows as waiting only.",
    stops_service: true,
    ..FaultCard::SERVERS
};

/// How long it may take until a server is seen still.
const FALLS_SILENT: Duration = Duration::from_secs(20);

/// Description and deed.
pub const ENTRY: Entry = Entry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, site, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let processes = site.processes()?;
    let servers = aim::servers(&choice.target, processes, &mut draw).await?;
    let leader = processes.leader().await.ok();
    let pause = |server| processes.pause(server);
    let seen = do_and_see(&servers, pause, FALLS_SILENT, |server| processes.is_silent(server)).await;
    let name = aim::server_name(&servers, &choice.target, leader);
    let healing = async move {
        // One that was ended meanwhile has nothing to go on with; whether it is back is seen next.
        let (there, _) = there_and_down(&servers, processes).await;
        do_each(&there, |server| processes.resume(server)).await?;
        until_whole(processes).await
    };
    Ok(Active::until(name, proof(seen), healing))
}
