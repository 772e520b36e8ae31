//! Facts about ZooKeeper itself that decide claims of articles on its locks; `docs/articles.md` cites them. Part of the
//! lane `locks`, whose servers they share.

mod herd;
mod nodes;
mod order;
mod watches;

use zklockbench_zk::admin;

/// Value of one of a server's own counters (`mntr`).
fn counter(server: &str, key: &str) -> i64 {
    let ask = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(admin::mntr(server)).unwrap().number(key).unwrap()
    };
    std::thread::scope(|scope| scope.spawn(ask).join().unwrap())
}
