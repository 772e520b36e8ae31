//! Tests of ZooKeeper that decide articles' claims about its locks, cited in `docs/articles.md`. They are
//! part of the lane `locks`, whose servers they share.

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
