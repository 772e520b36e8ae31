//! The recorder counts exactly the bytes on the wire.

use std::cell::RefCell;

use zklockbench_core::measure::ThreadRecorder;
use zklockbench_zk::{Failure, NodeKind, Op};

use crate::support::{proxy::Proxy, sessions::behind_wire};

/// Counters of the recorder and of the proxy.
fn reading(recorder: &RefCell<ThreadRecorder>, proxy: &Proxy) -> [(u64, u64); 2] {
    let whole = recorder.borrow().whole;
    [(whole.bytes_sent, whole.bytes_received), proxy.passed()]
}

/// Bytes sent and received between two readings, as counted by the recorder and on the wire.
fn between([books, wire]: [(u64, u64); 2], [later_books, later_wire]: [(u64, u64); 2]) -> [(u64, u64); 2] {
    [(later_books.0 - books.0, later_books.1 - books.1), (later_wire.0 - wire.0, later_wire.1 - wire.1)]
}

#[test]
fn recorder_counts_every_byte_of_a_multi() {
    behind_wire(async |scene, proxy| {
        let (session, recorder) = scene.metered_by(&proxy.connect).await;
        let path = format!("{}/n-", scene.lock);
        let one = session.create(&path, b"data", NodeKind::EphemeralSequential).await.unwrap();
        let absent = format!("{path}0000000099");
        let operations: [&[Op<'_>]; 4] = [
            &[Op::SetData(&scene.lock, b"17"), Op::Delete(&absent)],
            &[Op::SetData(&absent, b"go"), Op::Delete(&one.path)],
            &[Op::Join { path: &path, data: b"127.0.0.1" }, Op::SetData(&one.path, b"")],
            &[Op::SetData(&scene.lock, b"17"), Op::Delete(&one.path)],
        ];
        for (operations, succeeds) in operations.into_iter().zip([false, false, true, true]) {
            let before = reading(&recorder, &proxy);
            let ended = session.multi(operations).await;
            let [books, wire] = between(before, reading(&recorder, &proxy));
            assert_eq!(books, wire, "{operations:?}");
            assert_eq!(ended.err(), (!succeeds).then_some(Failure::NoNode));
        }
    });
}
