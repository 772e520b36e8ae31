//! Wire counts compared with the session's own counts.

use zklockbench_core::measure::RequestKind;
use zklockbench_record::CountedTurns;

use crate::support::trials;

/// Kinds of requests sent, with their counts.
fn kinds(counts: &zklockbench_core::measure::WireCounts) -> Vec<(&'static str, u64)> {
    let sent = counts.requests.iter().filter(|(_, times)| *times > 0);
    sent.map(|(kind, times)| (kind.name(), times)).collect()
}

#[tokio::test]
async fn wire_counts_equal_session_counts_for_every_lock() {
    let names: Vec<String> =
        zklockbench_locks::cards().iter().map(|card| format!("\"{}\"", card.name)).collect();
    let lines = format!(
        "strategies = [{}]\ncontenders = 6\nhold = \"1ms\"\nduration = \"300ms\"\npoll_interval = \"5ms\"\norder = \"as-written\"\n",
        names.join(", ")
    );
    let mut compared = 0;
    for (name, counting) in names.iter().zip(trials::count(&lines).await) {
        assert_eq!(counting.missing, None, "{name}");
        let client = counting.client.unwrap();
        println!(
            "{name}: {} acquired, {:?}, by release {:?} (client {}, unknown {}), {:?}, bytes {} {} (client {} {})",
            counting.whole.acquired,
            kinds(&counting.whole),
            counting.whole_by_release,
            client.notifications.by_release(),
            client.notifications.cause_unknown,
            counting.by_release_missing,
            counting.whole.bytes_sent,
            counting.whole.bytes_received,
            client.bytes_sent,
            client.bytes_received,
        );
        assert_eq!(counting.disagreements(), [], "{name}");
        assert!(counting.whole_by_release.is_some(), "{name}: {:?}", counting.by_release_missing);
        compared += u32::from(client.unseen == 0);
    }
    assert!(compared > 10);
}

#[tokio::test]
async fn curator_mutex_sends_an_exact_number_of_requests_of_each_kind() {
    let lines = "strategies = [\"curator-mutex\"]\ncontenders = [1, 5]\nhold = \"3ms\"\nduration = \"1s\"\n";
    let [alone, queued] = <[_; 2]>::try_from(trials::count(lines).await).unwrap();
    assert_eq!((alone.turns, queued.turns), (CountedTurns::AfterTheFirst, CountedTurns::AfterTheFirst));
    let acquired = alone.counted.acquired;
    assert!(acquired > 10 && queued.counted.acquired > 10);
    let each = [("create", acquired), ("delete", acquired), ("get_children", acquired)];
    assert_eq!(kinds(&alone.counted), each);
    assert_eq!((alone.by_release, alone.counted.notifications.total()), (Some(0), 0));
    for counting in [&alone, &queued] {
        let (wire, client) = (&counting.whole, counting.client.unwrap());
        assert_eq!(counting.disagreements(), []);
        assert_eq!((wire.bytes_sent, wire.bytes_received), (client.bytes_sent, client.bytes_received));
        assert_eq!(wire.acquired, client.acquired());
        // Pings, connects and closes do not count as requests of the lock.
        assert_eq!(wire.apart.connects, wire.apart.closes);
        assert!(wire.other_requests.is_empty());
    }
    // A waiter also reads the node before its own, and a release wakes one waiter.
    assert!(queued.counted.requests.get(RequestKind::GetDataWatch) > 0);
    let woken = queued.by_release.unwrap() as f64 / queued.counted.acquired as f64;
    assert!((0.9..=1.0).contains(&woken), "{woken}");
}
