//! Reads of existing and missing nodes through a server that lags behind the writes.

use zklockbench_zk::{CaughtUp, NodeKind};
use zookeeper_client::Acls;

use crate::support::{depth, ensemble, sessions::client, trials};

#[tokio::test]
async fn checks_see_writes_acknowledged_by_another_server() {
    let alone = ensemble::alone_of(3).await;
    let servers = alone.addresses();
    let (mut late, mut wrong, rounds) = (0, 0, depth::of(100, 300));
    for server in &servers[1..] {
        let (writer, reader) = (client(&servers[0]).await, client(server).await);
        for round in 0..rounds {
            let path = format!("/{}", trials::unique("seen"));
            let options = NodeKind::Ephemeral.with_acls(Acls::anyone_all());
            for there in [true, false] {
                if there {
                    writer.create(&path, &[], &options).await.unwrap();
                } else {
                    writer.delete(&path, None).await.unwrap();
                }
                if round % 2 == 0 {
                    late += usize::from(reader.check_stat(&path).await.unwrap().is_some() != there);
                }
                let now = CaughtUp::with(&reader).await.unwrap();
                wrong += usize::from(now.stat(&path).await.unwrap().is_some() != there);
            }
        }
    }
    println!("{late} of {} reads without a sync were stale", 2 * rounds);
    assert_eq!(wrong, 0);
}
