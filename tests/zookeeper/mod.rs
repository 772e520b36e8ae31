//! Tests of ZooKeeper and Curator that decide claims of articles. `docs/articles.md` cites these tests. They
//! belong to the `locks` lane and share its servers.

mod curator;
mod herd;
mod nodes;
mod order;
mod watches;

use zklockbench_zk::{admin, runtime};

/// Value of a server's counter (`mntr`).
pub fn counter(server: &str, key: &str) -> i64 {
    let ask = || runtime::block_on(admin::mntr(server)).unwrap().number(key).unwrap();
    std::thread::scope(|scope| scope.spawn(ask).join().unwrap())
}
