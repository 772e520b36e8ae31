//! Tests of ZooKeeper and Curator that decide claims of articles. `docs/articles.md` cites these tests. They
//! belong to the `locks` lane and share its servers.

mod curator;
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
