//! Ensembles with unusual configurations: names with several addresses, servers with several addresses, servers that
//! are not one ensemble, connection limits, other session timeouts, and servers that do not resume sessions.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::hostile_servers::serve;
use crate::support::ensemble::free_ports;
use crate::support::program::{Bench, eventually, left_on, stderr, went_through};
use crate::support::proxy::next_packet;
use crate::support::servers::{self, Server};
use crate::support::skip::skipped;
use zklockbench_ensemble::roles;
use zklockbench_zk::runtime;

const SCENARIO: &str = "name = \"x\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 3\nhold = \"20ms\"\n\
                        duration = \"1s\"\nwarm_up = \"0s\"\nrepetitions = 1\n";

fn serve_at(addresses: &[String]) {
    eventually("all servers serve", Duration::from_secs(20), || {
        runtime::block_on(roles(addresses)).iter().all(|role| role.state.is_ok())
    });
}

/// Starts a single server with these additional configuration lines; also returns its address.
fn alone(bench: &Bench, lines: &str) -> (Server, String) {
    let port = free_ports(1)[0];
    let address = format!("127.0.0.1:{port}");
    let config = format!("clientPortAddress=127.0.0.1\nclientPort={port}\n{lines}");
    let server = servers::start(&bench.path(&format!("server-{port}")), address.clone(), &config, &[]);
    serve_at(std::slice::from_ref(&address));
    (server, address)
}

#[test]
fn host_name_with_three_addresses_counts_as_three_servers() {
    if !rustix::process::geteuid().is_root() {
        skipped("cannot mount another /etc/hosts without root");
        return;
    }
    // Given three servers behind one name, with ZooKeeper's default list of four-letter commands
    let bench = Bench::with(SCENARIO);
    let servers = servers::three(&bench.path("servers"), |host, port| {
        format!("tickTime=500\nclientPort={port}\nclientPortAddress={host}\n")
    });
    let addresses: Vec<String> = servers.iter().map(|server| server.address.clone()).collect();
    serve_at(&addresses);
    // When the name is the connect string
    let hosts = "127.0.0.1 localhost zk.test\n127.0.0.2 zk.test\n127.0.0.3 zk.test\n";
    let (_, port) = addresses[0].split_once(':').unwrap();
    let connect = format!(" zk.test:{port}, ");
    let words = ["run", "scenario.toml", "--no-floor", "--connect", &connect];
    let output = bench.command_with_file("/etc/hosts", hosts, &words).output().unwrap();
    // Then all three servers are used, and the run reports that their counters are missing
    went_through(&output);
    let said = stderr(&output);
    assert!(said.contains(&format!("3 servers: {} (", addresses[0])) && said.contains("(leader)"), "{said}");
    assert!(said.contains("servers' own counters not available"), "{said}");
    let stored = bench.stored();
    assert_eq!(stored.run.ensemble.connect, addresses.join(","));
    let listed: Vec<&String> = stored.run.ensemble.servers.iter().map(|server| &server.address).collect();
    assert_eq!(listed, addresses.iter().collect::<Vec<_>>());
}

#[test]
fn silent_dns_server_is_reported_within_seconds() {
    if !rustix::process::geteuid().is_root() {
        skipped("cannot mount another /etc/resolv.conf without root");
        return;
    }
    let _silent = UdpSocket::bind("127.0.53.53:53").unwrap();
    let (bench, begin) = (Bench::with(SCENARIO), Instant::now());
    let words = ["run", "scenario.toml", "--connect", "zk.test:2181"];
    let dns = "nameserver 127.0.53.53\n";
    let output = bench.command_with_file("/etc/resolv.conf", dns, &words).output().unwrap();
    let (elapsed, said) = (begin.elapsed(), stderr(&output));
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("cannot resolve the host in zk.test:2181 within 4s: check the DNS servers"),
        "{said}"
    );
    assert!(elapsed < Duration::from_secs(7), "{elapsed:?}: {said}");
}

#[test]
fn server_with_several_addresses_counts_as_one_server() {
    let port = free_ports(1)[0];
    let addresses: Vec<String> = (1..=2).map(|host| format!("127.0.0.{host}:{port}")).collect();
    let bench = Bench::with(SCENARIO);
    let config = format!("clientPort={port}\ntickTime=500\n4lw.commands.whitelist=*\n");
    let _server = servers::start(&bench.path("server"), addresses[0].clone(), &config, &[]);
    serve_at(&addresses);
    let connect = format!("{},[::ffff:127.0.0.1]:{port}", addresses.join(","));
    bench.completes(&format!("run scenario.toml --connect {connect} --no-floor"));
    let stored = bench.stored();
    assert_eq!(stored.run.ensemble.connect, addresses[0]);
    assert_eq!(stored.run.ensemble.servers.len(), 1, "{:?}", stored.run.ensemble);
    assert_eq!(stored.trials[0].servers_agree(), Some(true), "{:?}", stored.trials[0].accounting);
}

#[test]
fn standalone_servers_are_not_accepted_as_an_ensemble() {
    let bench = Bench::with(SCENARIO);
    let (_one, first) = alone(&bench, "tickTime=500\n");
    let (_other, second) = alone(&bench, "tickTime=500\n");
    let (_, said) = bench.ends(2, &format!("run scenario.toml --connect {first},{second}"));
    let expected = format!(
        "cannot use {first},{second}: the servers are not an ensemble, because 2 of 2 run alone: list all of them"
    );
    assert!(said.contains(&expected), "{said}");
    assert!(bench.results().is_empty());
    for address in [first, second] {
        assert_eq!(left_on(&address), []);
    }
}

#[test]
fn server_limits_and_session_timeouts_are_reported_before_the_run() {
    // Given a server with a long tick and a low connection limit
    let bench = Bench::with(&format!("{SCENARIO}session_timeout = \"5s\"\n"));
    let (_server, address) = alone(&bench, "tickTime=60000\nmaxClientCnxns=12\n4lw.commands.whitelist=*\n");
    let run = format!("run scenario.toml --connect {address} --no-floor");
    // When a run needs more connections than the server accepts
    let begin = Instant::now();
    let (_, said) = bench.ends(3, &format!("{run} --contenders 12"));
    // Sessions would time out after two minutes.
    assert!(begin.elapsed() < Duration::from_secs(60), "{said}");
    let expected = "the servers accept 12 from one host (maxClientCnxns: 12): raise maxClientCnxns";
    assert!(said.contains(expected), "{said}");
    assert!(bench.results().is_empty());
    // When a run needs fewer connections
    let said = stderr(&bench.completes(&run));
    // Then the granted timeout is reported both before the trials and in the results
    let granted = "session timeout: requested 5 s, granted 2m";
    assert!(said.contains(&format!("warning: {granted}; these servers grant 2m to 20m")), "{said}");
    let (stored, dir) = (bench.stored(), bench.results().remove(0));
    assert_eq!(stored.trials[0].granted_otherwise(), Some((5_000_000, 120_000_000)));
    let told = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    assert!(told("summary.md").contains(granted), "{}", told("summary.md"));
    assert!(told("summary.json").contains(granted));
}

/// Returns whether a connection starts with the length of a session's first packet, not with a four-letter command.
fn is_length(first: [u8; 4]) -> bool {
    !first.is_ascii() || first[0] == 0
}

/// Starts a proxy that closes a session's connection instead of forwarding the creation of a run's sign of life.
fn without_signs_of_life(server: &str) -> String {
    const NAME: &[u8] = b"/alive";
    let server = server.to_owned();
    serve(move |mut client| {
        let mut server = TcpStream::connect(&server).unwrap();
        let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        let mut first = [0; 4];
        if client.peek(&mut first).is_ok() && is_length(first) {
            let is_sign = |packet: &Vec<u8>| packet.windows(NAME.len()).any(|part| part == NAME);
            while let Some(packet) = next_packet(&mut client).filter(|packet| !is_sign(packet)) {
                let _ = server.write_all(&packet);
            }
        } else {
            let _ = std::io::copy(&mut client, &mut server);
        }
        let _ = server.shutdown(Shutdown::Both);
        let _ = client.shutdown(Shutdown::Both);
    })
}

#[test]
fn run_that_cannot_be_marked_alive_leaves_no_nodes() {
    let bench = Bench::with(SCENARIO);
    let (_server, address) = alone(&bench, "tickTime=500\n4lw.commands.whitelist=*\n");
    let (_, said) =
        bench.ends(3, &format!("run scenario.toml --connect {}", without_signs_of_life(&address)));
    assert!(said.contains("/alive on ") && said.contains("connection loss"), "{said}");
    assert_eq!(left_on(&address), []);
}

/// Starts a proxy that prevents sessions from being resumed: clients get a new session instead.
fn forgetful(server: &str) -> String {
    let server = server.to_owned();
    serve(move |client| {
        let _ = forget(client, &server);
    })
}

fn forget(mut client: TcpStream, server: &str) -> std::io::Result<()> {
    let mut first = [0; 4];
    client.read_exact(&mut first)?;
    let mut server = TcpStream::connect(server)?;
    server.write_all(&first)?;
    if is_length(first) {
        let mut connect = vec![0; u32::from_be_bytes(first) as usize];
        client.read_exact(&mut connect)?;
        // Erase the session's ID and password
        connect[16..24].fill(0);
        connect[28..44].fill(0);
        server.write_all(&connect)?;
    }
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let _ = std::io::copy(&mut server, &mut client);
    client.shutdown(Shutdown::Both)
}

#[test]
fn sessions_that_a_server_does_not_resume_are_counted_and_replaced() {
    let reset = "[[fault]]\nkind = \"reset\"\ntarget = \"all\"\nat = \"1s\"\n";
    let bench = Bench::with(&format!("{}session_timeout = \"2s\"\n{reset}", SCENARIO.replace("1s", "6s")));
    let (_server, address) = alone(&bench, "tickTime=500\n4lw.commands.whitelist=*\n");
    let output = bench
        .typed(&format!("run scenario.toml --connect {} --no-floor --allow-faults", forgetful(&address)))
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(1), "{}", stderr(&output));
    let trial = &bench.stored().trials[0];
    assert!(trial.faults[0].proved, "{:?}", trial.faults);
    assert!(trial.sessions.not_resumed.is_some_and(|count| count >= 3), "{:?}", trial.sessions);
    assert!(trial.sessions.rejoined >= 3, "{:?}", trial.sessions);
    let summary = std::fs::read_to_string(bench.results()[0].join("summary.md")).unwrap();
    assert!(summary.contains("not resumed after a lost connection"), "{summary}");
}
