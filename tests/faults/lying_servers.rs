//! Servers that miscount children, and locks that join by count. The check before the first trial refuses a server
//! that always miscounts. Violations reveal a server that miscounts only for locks.

use futures_util::future::join;
use zklockbench_core::{error::Exit, verdict::Verdict};
use zklockbench_record::Trial;

use crate::support::lying::{Lies, LyingServer};
use crate::support::{ensemble, trials};

const LOCKS: [&str; 4] = [
    "\"count\"",
    "{ name = \"curator-mutex\", join = \"count\" }",
    "{ name = \"predecessor-watch\", join = \"count\" }",
    "{ name = \"count-semaphore\", leases = 2 }",
];

fn scenario(strategy: &str) -> String {
    format!(
        "strategies = [{strategy}]\ncontenders = 6\nhold = \"20ms\"\nwarm_up = \"0s\"\nacquisitions = 30\n"
    )
}

#[tokio::test]
async fn miscounting_server_is_refused_before_the_first_trial() {
    let local = ensemble::alone().await;
    for strategy in LOCKS {
        let lying = LyingServer::before(&local.connect(), Lies::Always);
        let refused = trials::try_one_by(&lying.connect, &local, &scenario(strategy)).await.unwrap_err();
        assert_eq!((refused.exit(), lying.lies_told()), (Exit::Environment, 2), "{strategy}");
        let told = refused.to_string();
        for said in [
            "the reply to the join reports a queue length of 1 instead of 2",
            &lying.connect,
            "join = \"create\"",
        ] {
            assert!(told.contains(said), "{strategy}: {told}");
        }
    }
    // Other locks work on the same server.
    let lying = LyingServer::before(&local.connect(), Lies::Always);
    let other = trials::try_one_by(&lying.connect, &local, &scenario("\"predecessor-watch\"")).await;
    assert_eq!(other.unwrap().judged.verdict, Verdict::Held);
}

#[tokio::test]
async fn violations_reveal_a_server_that_miscounts_only_for_locks() {
    let local = ensemble::alone().await;
    for strategy in LOCKS {
        let tried = |lies| {
            let (between, local) = (LyingServer::before(&local.connect(), lies), &local);
            async move {
                let trial = trials::try_one_by(&between.connect, local, &scenario(strategy)).await.unwrap();
                (trial, between.lies_told())
            }
        };
        let (lied_to, control) = join(tried(Lies::OutsideOf("/counting/")), tried(Lies::Never)).await;
        let found = |trial: &Trial| format!("{strategy}: {:?}, {:?}", trial.judged.verdict, trial.evidence);
        let (trial, lies) = lied_to;
        assert!(
            lies > 6 && matches!(trial.judged.verdict, Verdict::Violated(_)),
            "{lies}, {}",
            found(&trial)
        );
        let (trial, lies) = control;
        assert_eq!((&trial.judged.verdict, lies), (&Verdict::Held, 0), "{}", found(&trial));
        assert!(trial.errors.is_empty(), "{strategy}: {:?}", trial.errors);
    }
}
