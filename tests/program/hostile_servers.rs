//! Servers that are none, or that lie: what they announce is not believed, and what is secret goes to none of them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::program::{Bench, eventually, measured, stderr};

const SCENARIO: &str =
    "name = \"short\"\nstrategies = [\"baton\"]\ncontenders = 2\nhold = \"2ms\"\nduration = \"500ms\"\n";
const MOST_KB: u64 = 100_000;
/// The length of a frame of two gigabytes, which the zeros after it never fill.
const TWO_GIGABYTES: [u8; 4] = i32::MAX.to_be_bytes();
/// The numbers by which the protocol names what is not an answer to a request, and a request for a list.
const PING: i32 = -2;

/// What a server makes up.
#[derive(Debug, Clone, Copy)]
enum Lie {
    /// Whatever it is asked, two gigabytes come.
    Everywhere,
    /// It grants sessions, and answers requests with two gigabytes.
    OfReplies,
    /// It grants sessions, and answers requests with a list of two billion elements.
    OfLists,
    /// It grants sessions that time out before they began.
    OfTimeouts,
}

/// Listens until the test ends, and does that to all that connect. Gives its address.
fn liar(lie: Lie) -> String {
    serve(move |stream| {
        let _ = tell(stream, lie);
    })
}

fn serve(each: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
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
    if matches!(lie, Lie::Everywhere) || !is_session {
        stream.write_all(&TWO_GIGABYTES)?;
        return endless(&mut stream);
    }
    let timeout: i32 = if matches!(lie, Lie::OfTimeouts) { -1 } else { 20_000 };
    let granted = [
        &0_i32.to_be_bytes()[..],
        &timeout.to_be_bytes(),
        &7_i64.to_be_bytes(),
        &16_i32.to_be_bytes(),
        &[7; 16],
        &[0],
    ];
    send(&mut stream, &granted.concat())?;
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

/// The next frame; `None` where it is a word of four letters instead.
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

fn endless(stream: &mut TcpStream) -> std::io::Result<()> {
    loop {
        stream.write_all(&[0; 1 << 16])?;
    }
}

#[test]
fn a_server_that_announces_two_gigabytes_is_refused_by_name_of_the_limit_and_costs_no_memory() {
    let bench = Bench::with(SCENARIO);
    let announced = "the server announced a reply of 2147483647 bytes, and more than 16 MiB are not read";
    for (lie, told) in [
        (Lie::Everywhere, announced),
        (Lie::OfReplies, announced),
        (Lie::OfLists, "unable to unmarshal"),
        (Lie::OfTimeouts, "cannot"),
    ] {
        let address = liar(lie);
        for arguments in [
            vec!["clean", "--connect", &address],
            vec!["run", "scenario.toml", "--connect", &address, "--no-progress"],
        ] {
            let ended = measured(bench.command(&arguments));
            let case = format!("{lie:?}: {}: {}", arguments[0], ended.said);
            assert_eq!(ended.code, Some(3), "{case}");
            assert!(ended.resident_kb < MOST_KB, "{} kB: {case}", ended.resident_kb);
            // A run begins with a create, whose reply is no list.
            if arguments[0] == "clean" || !matches!(lie, Lie::OfLists) {
                assert!(ended.said.contains(told), "{case}");
            }
        }
    }
    assert!(bench.results().is_empty());
}

/// Listens, answers nothing, and keeps what it hears.
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
fn an_identity_goes_to_no_address_that_only_a_scenario_names() {
    // Given a scenario that names an address, where somebody listens
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
            // When it is run by a user with an identity
            let mut command = bench.command(&[&arguments[..], &options].concat());
            if options.is_empty() {
                command.env("ZKLOCKBENCH_AUTH", "bench:hunter2");
            }
            let output = command.output().unwrap();
            // Then the user is asked to name the address, and nothing has gone there
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
            assert!(said.contains(&format!("--connect {address}")) && said.contains(source), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
            assert_eq!(*heard.lock().unwrap(), b"", "{arguments:?}");
        }
    }
    // And when the user names it, the identity does go there
    let mut command = bench.command(&["clean", "--connect", &address]);
    let mut running = command.env("ZKLOCKBENCH_AUTH", "bench:hunter2").spawn().unwrap();
    eventually("the identity has come", Duration::from_secs(20), || {
        heard.lock().unwrap().windows(13).any(|bytes| bytes == b"bench:hunter2")
    });
    running.kill().unwrap();
    running.wait().unwrap();
}
