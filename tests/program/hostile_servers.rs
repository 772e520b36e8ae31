//! Servers that are not ZooKeeper or that misbehave: announced sizes are not trusted, and no secrets are sent.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::ensemble;
use crate::support::program::{Bench, eventually, measured, stderr};

const SCENARIO: &str =
    "name = \"short\"\nstrategies = [\"baton\"]\ncontenders = 2\nhold = \"2ms\"\nduration = \"500ms\"\n";
const MOST_KB: u64 = 100_000;
/// Length prefix of a frame of two gigabytes that never arrives completely.
const TWO_GIGABYTES: [u8; 4] = i32::MAX.to_be_bytes();
/// Xids of frames that do not answer a request.
const PING: i32 = -2;
const NOTIFICATION: i32 = -1;

#[derive(Debug, Clone, Copy)]
enum Lie {
    /// Answers everything with two gigabytes.
    Everywhere,
    /// Grants sessions, and answers requests with two gigabytes.
    OfReplies,
    /// Grants sessions, and answers requests with a list of two billion elements.
    OfLists,
    /// Grants sessions whose timeout has already passed.
    OfTimeouts,
    /// Grants sessions, and keeps sending unsolicited frames.
    Flood(Flood),
    /// Grants no sessions, and sends endless replies to administrative commands.
    OfCommands,
}

/// Kind of frames to send endlessly.
#[derive(Debug, Clone, Copy)]
enum Flood {
    Notifications,
    /// Notifications of more than a megabyte each.
    LongNotifications,
    /// Events about the session itself.
    SessionEvents,
    Pings,
    /// Replies to requests that were never sent.
    Replies,
    /// Frames without a header.
    Empty,
}

impl Flood {
    fn frame(self) -> Vec<u8> {
        let header =
            |xid: i32| [&xid.to_be_bytes()[..], &(-1_i64).to_be_bytes(), &0_i32.to_be_bytes()].concat();
        let event = |kind: i32, path: &[u8]| {
            let length = i32::try_from(path.len()).unwrap();
            let (kind, state) = (kind.to_be_bytes(), 3_i32.to_be_bytes());
            [&header(NOTIFICATION)[..], &kind, &state, &length.to_be_bytes(), path].concat()
        };
        let body = match self {
            Self::Notifications => event(4, &b"/zklockbench/x".repeat(20)),
            Self::LongNotifications => event(4, &[b"/", &[b'x'; 3 << 19][..]].concat()),
            Self::SessionEvents => event(-1, b""),
            Self::Pings => header(PING),
            Self::Replies => header(1_000_000),
            Self::Empty => Vec::new(),
        };
        [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
    }
}

/// Starts a misbehaving server that listens until the test ends. Returns the server's address.
fn liar(lie: Lie) -> String {
    serve(move |stream| {
        let _ = tell(stream, lie);
    })
}

pub fn serve(each: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let each = Arc::new(each);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let each = Arc::clone(&each);
            let stream = stream.unwrap();
            thread::spawn(move || each(stream));
        }
    });
    address
}

fn tell(mut stream: TcpStream, lie: Lie) -> std::io::Result<()> {
    let first = frame(&mut stream)?;
    let is_session = first.is_some();
    if matches!(lie, Lie::OfCommands | Lie::Flood(_)) && !is_session {
        stream.write_all(b"zk_version\t3.8.0\nzk_server_state\tstandalone\n")?;
        return endless_keys(&mut stream);
    }
    if matches!(lie, Lie::Everywhere) || !is_session {
        stream.write_all(&TWO_GIGABYTES)?;
        return endless(&mut stream);
    }
    if matches!(lie, Lie::OfCommands) {
        return Ok(());
    }
    let timeout: i32 = if matches!(lie, Lie::OfTimeouts) { -1 } else { 20_000 };
    let password = [&16_i32.to_be_bytes()[..], &[7; 16]].concat();
    let granted = [&[0; 4][..], &timeout.to_be_bytes(), &7_i64.to_be_bytes(), &password, &[0]];
    send(&mut stream, &granted.concat())?;
    if let Lie::Flood(flood) = lie {
        let frame = flood.frame();
        let many = frame.repeat((1 << 16) / frame.len() + 1);
        loop {
            stream.write_all(&many)?;
        }
    }
    while let Some(request) = frame(&mut stream)? {
        let xid = i32::from_be_bytes(*request.first_chunk().unwrap());
        let header = [&xid.to_be_bytes()[..], &1_i64.to_be_bytes(), &0_i32.to_be_bytes()].concat();
        match lie {
            _ if xid == PING => send(&mut stream, &header)?,
            Lie::OfLists => send(&mut stream, &[&header[..], &TWO_GIGABYTES].concat())?,
            _ => {
                stream.write_all(&TWO_GIGABYTES)?;
                return endless(&mut stream);
            }
        }
    }
    Ok(())
}

/// Reads the next frame; returns `None` for a four-letter command.
fn frame(stream: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let Some(length) = usize::try_from(i32::from_be_bytes(length)).ok().filter(|length| *length < 1 << 20)
    else {
        return Ok(None);
    };
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame)?;
    Ok(Some(frame))
}

fn send(stream: &mut TcpStream, body: &[u8]) -> std::io::Result<()> {
    stream.write_all(&[&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat())
}

fn endless_keys(stream: &mut TcpStream) -> std::io::Result<()> {
    for from in (0_u64..).step_by(1_000) {
        let keys: String = (from..from + 1_000).map(|key| format!("zk_{key:x}\t1\n")).collect();
        stream.write_all(keys.as_bytes())?;
    }
    Ok(())
}

fn endless(stream: &mut TcpStream) -> std::io::Result<()> {
    loop {
        stream.write_all(&[0; 1 << 16])?;
    }
}

/// Runs a command line against a lying server. Checks that the command fails and uses little memory, and that its
/// message contains this text, in which `ADDRESS` stands for the server's address.
fn assert_reported(lie: Lie, line: &str, told: &str) {
    let (bench, address) = (Bench::with(SCENARIO), liar(lie));
    let ended = measured(bench.typed(&format!("{line} --connect {address}")));
    let case = format!("{lie:?}: {line}: {}", ended.said);
    assert_eq!(ended.code, Some(3), "{case}");
    assert!(ended.resident_kb < MOST_KB, "{} kB: {case}", ended.resident_kb);
    assert!(ended.said.contains(&told.replace("ADDRESS", &address)), "{case}");
    assert!(bench.results().is_empty(), "{case}");
}

const RUN: &str = "run scenario.toml --no-progress";

#[test]
#[ignore = "long: endless replies are always tested"]
fn server_that_announces_two_gigabytes_is_reported_without_using_memory() {
    let announced = "the server announced a reply of 2147483647 bytes, which exceeds the limit of 16 MiB";
    for (lie, told) in [
        (Lie::Everywhere, announced),
        (Lie::OfReplies, announced),
        (Lie::OfLists, "unable to unmarshal"),
        (Lie::OfTimeouts, "cannot"),
    ] {
        assert_reported(lie, "clean", told);
        // The first request of a run is a create, whose reply is not a list.
        assert_reported(lie, RUN, if matches!(lie, Lie::OfLists) { "" } else { told });
    }
}

#[test]
fn flooding_server_is_reported_without_using_memory() {
    let unasked = "sent 1001 notifications that no watch asked for";
    for (flood, cause) in [
        (Flood::Notifications, unasked),
        (Flood::LongNotifications, "sent more than 16 MiB of notifications that no watch asked for"),
        (Flood::SessionEvents, "sent what is no notification"),
        (Flood::Pings, "sent a reply that no request asked for"),
        (Flood::Replies, "sent a reply that no request asked for"),
        (Flood::Empty, "sent what is no reply"),
    ] {
        for line in ["clean", RUN] {
            assert_reported(Lie::Flood(flood), line, &format!("ADDRESS {cause}"));
        }
    }
}

#[test]
fn endless_administrative_reply_is_reported_without_using_memory() {
    assert_reported(Lie::OfCommands, RUN, "ADDRESS replied to `srvr` with more than");
}

/// Number of replies before the server floods: a run needs fewer than a hundred replies to start, and gets
/// thousands per second under load.
const REPLIES_BEFORE: usize = 1_500;

/// Starts a proxy that forwards everything to a server, and later floods all connections. Returns its address.
fn turncoat(server: &str) -> String {
    let (server, replies) = (server.to_owned(), AtomicUsize::new(0));
    serve(move |client| {
        let _ = pass_on(client, &server, &replies);
    })
}

fn pass_on(mut client: TcpStream, server: &str, replies: &AtomicUsize) -> std::io::Result<()> {
    let mut server = TcpStream::connect(server)?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let flood = Flood::Notifications.frame();
    let mut length = [0; 4];
    while server.read_exact(&mut length).is_ok() {
        client.write_all(&length)?;
        // The answer to a four-letter command has no length prefix, and its first letters are not a valid length.
        let Some(length) =
            usize::try_from(u32::from_be_bytes(length)).ok().filter(|length| *length < 1 << 20)
        else {
            return std::io::copy(&mut server, &mut client).map(|_| ());
        };
        let mut body = vec![0; length];
        server.read_exact(&mut body)?;
        client.write_all(&body)?;
        if replies.fetch_add(1, Ordering::SeqCst) > REPLIES_BEFORE {
            loop {
                client.write_all(&flood)?;
            }
        }
    }
    client.shutdown(Shutdown::Both)
}

#[test]
fn server_that_floods_during_a_trial_ends_the_run() {
    // The run waits for contenders that are not served, as long as several session timeouts.
    let long = format!("{}session_timeout = \"4s\"\n", SCENARIO.replace("500ms", "60s"));
    let bench = Bench::with(&long);
    let address = turncoat(ensemble::shared().split(',').next().unwrap());
    let chroot = ensemble::place_on_shared();
    let below = format!("{}{}", address, &chroot[chroot.find('/').unwrap_or(chroot.len())..]);
    let ended = measured(bench.typed(&format!("{RUN} --connect {below} --no-floor")));
    assert_eq!(ended.code, Some(3), "{}", ended.said);
    assert!(ended.resident_kb < MOST_KB, "{} kB: {}", ended.resident_kb, ended.said);
    let cause = format!("the ensemble cannot be measured: {address} sent ");
    assert!(ended.said.contains(&cause) && ended.said.contains("that no watch asked for"), "{}", ended.said);
}

/// Starts a server that has no quorum, so it grants no sessions. Returns its address.
fn without_quorum() -> String {
    serve(|mut stream| {
        if let Ok(None) = frame(&mut stream) {
            let _ = stream.write_all(b"This ZooKeeper instance is not currently serving requests\n");
        }
    })
}

#[test]
fn servers_that_grant_no_session_are_reported_within_seconds() {
    let (stalled, silent) = (without_quorum(), spy().0);
    thread::scope(|scope| {
        for (address, cause) in [
            (&stalled, "it has no quorum"),
            (&silent, "does not reply to plain text: it is a TLS port (--tls)"),
        ] {
            // A calibration does not check the session timeout
            for line in [RUN, "calibrate --budget 3s"] {
                scope.spawn(move || {
                    let (bench, begin) = (Bench::with(SCENARIO), Instant::now());
                    let (_, said) = bench.ends(3, &format!("{line} --connect {address}"));
                    let elapsed = begin.elapsed();
                    assert!(elapsed < Duration::from_secs(9) && said.contains(cause), "{elapsed:?}: {said}");
                });
            }
        }
    });
}

/// Starts a server that never answers and records everything it receives. Returns its address and the record.
fn spy() -> (String, Arc<Mutex<Vec<u8>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heard);
    let address = serve(move |mut stream| {
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            kept.lock().unwrap().extend_from_slice(&piece[..read]);
        }
    });
    (address, heard)
}

#[test]
fn credentials_are_not_sent_to_an_address_from_a_scenario() {
    // Given a scenario with an address where a program is listening
    let bench = Bench::new();
    let (address, heard) = spy();
    bench.scenario(&format!("{SCENARIO}[ensemble]\nconnect = \"{address}\"\n"));
    std::fs::write(bench.path("identity"), "bench:hunter2\n").unwrap();
    let over = ["--over", "contenders=1..4"];
    for arguments in [
        vec!["run", "scenario.toml"],
        vec!["ab", "scenario.toml", "--b", "hold=3ms"],
        [&["sweep", "scenario.toml"][..], &over].concat(),
    ] {
        for (options, source) in
            [(vec![], "ZKLOCKBENCH_AUTH"), (vec!["--auth-file", "identity"], "--auth-file")]
        {
            // When a user with credentials runs the command
            let mut command = bench.command(&[&arguments[..], &options].concat());
            if options.is_empty() {
                command.env("ZKLOCKBENCH_AUTH", "bench:hunter2");
            }
            let output = command.output().unwrap();
            // Then the user is asked to add the address to the command line, and nothing was sent to it
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
            assert!(said.contains(&format!("--connect {address}")) && said.contains(source), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
            assert_eq!(*heard.lock().unwrap(), b"", "{arguments:?}");
        }
    }
    // And when the user adds the address, the credentials are sent to it
    let mut command = bench.command(&["clean", "--connect", &address]);
    let mut running = command.env("ZKLOCKBENCH_AUTH", "bench:hunter2").spawn().unwrap();
    eventually("the identity arrives", Duration::from_secs(20), || {
        heard.lock().unwrap().windows(13).any(|bytes| bytes == b"bench:hunter2")
    });
    running.kill().unwrap();
    running.wait().unwrap();
}
