//! The proxy in front of a real ensemble: how each setting affects a session until the setting is reverted, and what
//! the proxy counts.

mod raw;
mod world;

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join;
use raw::Raw;
use world::{by_proxy, eventually, fastest, in_session, timed};
use zklockbench_core::measure::RequestKind;
use zklockbench_ensemble::proxy::{Delay, Direction, Guard, LostMessage, Proxy, Who};
use zklockbench_zk::{Failure, NodeKind, runtime};

use crate::support::ensemble::{self, free_ports};
use crate::support::sessions;

/// Faults can be turned on and off from any thread.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Proxy>();
    is_shared::<Guard>();
    is_shared::<LostMessage>();
};

/// The client of a test's first session.
const ONE: Who = Who::Client(0);

/// A delay without a random part.
fn delay_of(latency: Duration) -> Delay {
    Delay { latency, extra: Duration::ZERO, seed: 1, only: None }
}

/// A delay of replies and notifications.
fn to_client(latency: Duration) -> Delay {
    Delay { only: Some(Direction::ToClient), ..delay_of(latency) }
}

#[test]
fn proxy_forwards_a_session_and_counts_its_bytes_for_its_client() {
    by_proxy(async |scene, proxy| {
        let [one, _other] =
            [world::session(&scene, &proxy, 0).await, world::session(&scene, &proxy, 1).await];
        let path = format!("{}-known", scene.lock);
        one.create(&path, b"data", NodeKind::Ephemeral).await.unwrap();
        assert_eq!(one.get_data(&path).await.unwrap().0, b"data");
        let [mine, theirs] = [0, 1].map(Who::Client);
        assert_eq!([mine, theirs, Who::All].map(|who| proxy.connections(who)), [1, 1, 2]);
        let (sent, received) = proxy.passed(mine);
        let (sent_by_other, received_by_other) = proxy.passed(theirs);
        assert!(sent > sent_by_other && received > received_by_other && received_by_other > 0);
        assert_eq!(proxy.passed(Who::All), (sent + sent_by_other, received + received_by_other));
        let unknown = Who::Client(2);
        assert_eq!((proxy.connections(unknown), proxy.passed(unknown)), (0, (0, 0)));
    });
}

#[test]
fn delay_affects_both_directions_of_one_client_until_reverted() {
    const LATENCY: Duration = Duration::from_millis(60);
    by_proxy(async |scene, proxy| {
        let [one, other] = [world::session(&scene, &proxy, 0).await, world::session(&scene, &proxy, 1).await];
        let knob = proxy.delay(ONE, delay_of(LATENCY));
        for _ in 0..3 {
            let took = timed(one.exists("/")).await;
            assert!(took >= 2 * LATENCY, "{took:?}");
        }
        assert!(fastest(20, || other.exists("/")).await < 2 * LATENCY);
        drop(knob);
        assert!(fastest(20, || one.exists("/")).await < 2 * LATENCY);
    });
}

#[test]
fn request_sent_during_a_stall_is_answered_only_afterwards() {
    by_proxy(async |scene, proxy| {
        let [one, other] = [world::session(&scene, &proxy, 0).await, world::session(&scene, &proxy, 1).await];
        let who = ONE;
        let knob = proxy.stall(who);
        let before = proxy.passed(who);
        let path = format!("{}-stalled", scene.lock);
        let waiting = runtime::spawn_local({
            let (one, path) = (one.clone(), path.clone());
            async move { one.create(&path, b"", NodeKind::Persistent).await }
        });
        let mut between = 0;
        for _ in 0..20 {
            let path = format!("{}-meanwhile", scene.lock);
            between = other.create(&path, b"", NodeKind::EphemeralSequential).await.unwrap().czxid;
        }
        assert!(!waiting.is_finished());
        assert_eq!(proxy.passed(who), before);
        assert_eq!(proxy.connections(who), 1);
        drop(knob);
        assert!(waiting.await.unwrap().czxid > between);
    });
}

#[test]
fn stall_also_delays_new_connections_and_four_letter_commands() {
    runtime::block_on(async {
        let proxy = world::proxy();
        let knob = proxy.stall(Who::All);
        let mut asks = Raw::connect(&proxy.addresses()[0]);
        asks.send(b"srvr");
        assert!(asks.is_silent());
        // Given a client that requested a session and disconnected before any packet was forwarded
        let mut gone = Raw::connect(&proxy.addresses()[0]);
        gone.send(&raw::CONNECT_REQUEST);
        drop(gone);
        eventually(|| proxy.connections(Who::All) == 2).await;
        drop(knob);
        // Then the connected client is answered, and the other connection is dropped
        assert!(asks.answer().contains("Zookeeper version"), "the command passes unchanged");
        eventually(|| proxy.connections(Who::All) == 0).await;
        assert_eq!(proxy.passed(Who::All).0, 4);
    });
}

#[test]
fn session_continues_after_its_connection_is_reset_or_cut() {
    in_session(async |scene, proxy, session| {
        let (id, path) = (session.id(), format!("{}-goes-on", scene.lock));
        session.create(&path, b"", NodeKind::Ephemeral).await.unwrap();
        for breaks in [Proxy::reset, Proxy::cut] {
            let sent = proxy.passed(ONE).0;
            assert_eq!(breaks(&proxy, ONE), 1);
            world::answers(&session).await;
            assert_eq!((session.id(), proxy.connections(ONE)), (id, 1));
            assert!(proxy.passed(ONE).0 > sent, "both connections count for the client");
            assert_eq!(session.exists(&path).await.unwrap().unwrap().owner, id);
        }
        assert_eq!(proxy.reset(Who::Client(1)), 0);
    });
}

#[test]
fn client_sees_a_reset_as_reset_and_a_cut_as_end_of_stream() {
    runtime::block_on(async {
        let proxy = world::proxy();
        for (breaks, is_reset) in [(Proxy::reset as fn(&Proxy, Who) -> usize, true), (Proxy::cut, false)] {
            let mut raw = Raw::connect(&proxy.addresses()[0]);
            eventually(|| proxy.connections(Who::All) == 1).await;
            assert_eq!(breaks(&proxy, Who::All), 1);
            assert_eq!(raw.was_reset(), is_reset);
            eventually(|| proxy.connections(Who::All) == 0).await;
        }
    });
}

#[test]
fn session_of_a_refused_client_expires_while_other_clients_connect() {
    by_proxy(async |scene, proxy| {
        let refused = world::short_session(&proxy).await;
        let (who, path) = (ONE, format!("{}-refused", scene.lock));
        refused.create(&path, b"", NodeKind::Ephemeral).await.unwrap();
        let knob = proxy.refuse(who);
        let other = world::session(&scene, &proxy, 1).await;
        world::is_gone(&other, &path).await;
        assert_eq!(proxy.connections(who), 0);
        drop(knob);
    });
}

#[test]
fn proxy_refuses_all_connections_until_the_knob_is_reverted() {
    in_session(async |_scene, proxy, session| {
        let knob = proxy.refuse(Who::All);
        assert!(Raw::connect(&proxy.addresses()[0]).was_reset());
        eventually(|| proxy.connections(Who::All) == 0).await;
        drop(knob);
        world::answers(&session).await;
    });
}

#[test]
fn lost_reply_leaves_the_node_and_does_not_affect_earlier_replies() {
    by_proxy(async |scene, proxy| {
        let [one, other] = [world::session(&scene, &proxy, 0).await, scene.session().await];
        let (id, path) = (one.id(), format!("{}-lost", scene.lock));
        let lost = proxy.drop_reply(ONE, &[RequestKind::Create, RequestKind::Multi]);
        // Given requests of other kinds, the last of them sent together with the create
        one.get_data("/").await.unwrap();
        assert_eq!(lost.strikes().now_or_never(), None);
        let (read, created) = join(one.exists("/"), one.create(&path, b"", NodeKind::Persistent)).await;
        // Then the client receives their replies, and never the reply to its create
        assert!(read.unwrap().is_some());
        assert_eq!(created.unwrap_err(), Failure::ConnectionLoss);
        let struck = world::in_time(lost.strikes()).await;
        assert_eq!((struck.request.kind, struck.request.path.as_str()), (RequestKind::Create, path.as_str()));
        // And the node exists
        other.sync(&path).await.unwrap();
        let stat = other.exists(&path).await.unwrap().unwrap();
        assert!(stat.czxid <= struck.zxid);
        // And only one reply is lost, and the session survives
        world::answers(&one).await;
        one.create(&format!("{path}-again"), b"", NodeKind::Ephemeral).await.unwrap();
        assert_eq!(one.id(), id);
    });
}

#[test]
fn bandwidth_limits_both_directions_until_reverted() {
    const BYTES: usize = 100_000;
    // Minimum time at 200 kB/s, minus the burst that a limit allows.
    const LEAST: Duration = Duration::from_millis(450);
    in_session(async |scene, proxy, session| {
        let path = format!("{}-wide", scene.lock);
        session.create(&path, b"", NodeKind::Ephemeral).await.unwrap();
        let knob = proxy.bandwidth(ONE, 200_000);
        let wrote = timed(session.set_data(&path, &[7; BYTES])).await;
        let read = timed(session.get_data(&path)).await;
        assert!(wrote >= LEAST && read >= LEAST, "{wrote:?} {read:?}");
        drop(knob);
        assert!(fastest(20, || session.get_data(&path)).await < LEAST);
    });
}

#[test]
fn large_data_arrives_intact_while_several_knobs_are_on() {
    in_session(async |scene, proxy, session| {
        let who = ONE;
        let extra = Duration::from_millis(5);
        let _knobs = [
            proxy.delay(who, Delay { latency: Duration::from_millis(1), extra, seed: 3, only: None }),
            proxy.delay(Who::All, delay_of(Duration::from_millis(1))),
            proxy.bandwidth(who, 20_000_000),
            proxy.delay(who, to_client(Duration::from_millis(1))),
        ];
        let path = format!("{}-large", scene.lock);
        let data: Vec<u8> = (0..500_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        session.create(&path, &data, NodeKind::Ephemeral).await.unwrap();
        assert!(session.get_data(&path).await.unwrap().0 == data);
    });
}

#[test]
fn closed_proxy_neither_listens_nor_stays_connected() {
    let proxy = world::proxy();
    let address = proxy.addresses()[0].clone();
    let mut raw = Raw::connect(&address);
    raw.send(&raw::CONNECT_REQUEST);
    // A session is granted
    raw.hears();
    drop(proxy);
    raw.ends();
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn connection_to_a_server_that_is_down_is_reset() {
    let unused = format!("127.0.0.1:{}", free_ports(1)[0]);
    let proxy = Proxy::before(&[unused]).unwrap();
    assert!(Raw::connect(&proxy.connect()).was_reset());
}

#[test]
fn proxy_rejects_invalid_server_addresses() {
    for wrong in ["zk1", "zk1:", "zk1:0", ":2181", "zk1:2181/chroot"] {
        let error = Proxy::before(&["zk1:2181".to_owned(), wrong.to_owned()]).unwrap_err();
        let expected = format!("proxy: `{wrong}` is not a server address; expected `host:port`");
        assert_eq!(error.to_string(), expected);
    }
}

/// Also prints the time that the proxy adds to a round trip, for the documentation.
#[test]
fn proxy_adds_a_fraction_of_a_millisecond_to_a_round_trip() {
    const ROUND_TRIPS: usize = 2000;
    runtime::block_on(async {
        let scene = sessions::scene(ensemble::shared()).await;
        let servers = world::servers();
        let proxy = Proxy::before(&servers[..1]).unwrap();
        let direct = scene.traced_by(&servers[0]).await.0;
        let by_proxy = world::session(&scene, &proxy, 0).await;
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..ROUND_TRIPS {
            without.push(timed(direct.exists("/")).await);
            with.push(timed(by_proxy.exists("/")).await);
        }
        without.sort_unstable();
        with.sort_unstable();
        let (median, median_by_proxy) = (without[ROUND_TRIPS / 2], with[ROUND_TRIPS / 2]);
        println!(
            "round trip, median of {ROUND_TRIPS}: {median:?} without, {median_by_proxy:?} with the proxy"
        );
        // The fastest round trip, because other load on the host can only slow a round trip down.
        let (fastest, fastest_by_proxy) = (without[0], with[0]);
        assert!(fastest_by_proxy < fastest + Duration::from_millis(1), "{fastest:?} {fastest_by_proxy:?}");
    });
}
