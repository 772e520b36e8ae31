//! Tests of ZooKeeper that decide claims of articles about its locks. `docs/articles.md` cites these tests. They
//! belong to the `locks` lane and share its servers.

mod herd;
mod nodes;
mod order;
mod watches;

use zklockbench_zk::admin;

/// Value of a server's counter (`mntr`).
fn counter(server: &str, key: &str) -> i64 {
    let ask = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(admin::mntr(server)).unwrap().number(key).unwrap()
    };
    std::thread::scope(|scope| scope.spawn(ask).join().unwrap())
}
