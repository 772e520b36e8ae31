//! The cost of the client: compares the rates of sequential requests in a session and on a plain socket.
//!
//! ```text
//! cargo bench --bench raw_socket
//! ```
//!
//! Both sides alternate on the same server, and the result is the median ratio. By default, the benchmark starts a
//! server with its data in memory. To use another server, set `ZKLOCKBENCH_CONNECT`.
//!
//! The exit code is 1 if the ratio is below the limit, and 3 if no server can be used.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output is a table")]

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use zklockbench_core::clock;
use zklockbench_core::error::Error;
use zklockbench_ensemble::{Installation, Local, LocalSpec, Places};
use zklockbench_zk::{Access, Observed, Target, runtime};

const ROUNDS: usize = 10;
const ROUND: Duration = Duration::from_secs(1);
const LIMIT: f64 = 0.95;
const TIMEOUT: Duration = Duration::from_secs(30);
const PATH: &str = "/";
const MEMORY: &str = "/dev/shm";

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let local = match std::env::var("ZKLOCKBENCH_CONNECT") {
        Ok(connect) => Ok((connect, None)),
        Err(_) => runtime.block_on(start()).map(|local| (local.connect(), Some(local))),
    };
    // `_local` stops the server when dropped.
    let (connect, _local) = match local {
        Ok(local) => local,
        Err(error) => return failed(&error),
    };
    let server = connect.split([',', '/']).next().unwrap_or_default().to_owned();
    match compared(&server) {
        Ok(ratio) if ratio >= LIMIT => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => failed(&error),
    }
}

fn failed(why: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(3)
}

async fn start() -> Result<Local, Error> {
    let installation = Installation::find(&Places::of_this_machine(None))?;
    let memory = Path::new(MEMORY);
    let data_dir = tempfile::tempfile_in(memory).is_ok().then(|| memory.to_path_buf());
    let spec = LocalSpec { servers: 1, data_dir, logs: None, apart: false, nicer_by: 0 };
    Local::start(&spec, &installation).await
}

/// Median ratio of the session's rate to the socket's rate.
fn compared(server: &str) -> Result<f64, Error> {
    let mut socket =
        Socket::open(server).map_err(|error| Error::environment(format!("{server}: {error}")))?;
    let mut ratios = Vec::new();
    // The first round warms the server up.
    for round in 0..=ROUNDS {
        let plain = socket.rate().map_err(|error| Error::environment(format!("{server}: {error}")))?;
        let ours = runtime::block_on(session_rate(server))?;
        if round > 0 {
            println!("{plain:8.0}/s on a socket, {ours:8.0}/s in a session: {:.3}", ours / plain);
            ratios.push(ours / plain);
        }
    }
    let median = zklockbench_stats::median(&ratios).unwrap_or(f64::NAN);
    println!("median {median:.3}, limit {LIMIT}");
    Ok(median)
}

async fn session_rate(server: &str) -> Result<f64, Error> {
    let target = Target { connect: server.to_owned(), access: Access::default() };
    let failed = |failure: zklockbench_zk::Failure| Error::environment(format!("{server}: {failure}"));
    let session = target.open(TIMEOUT, TIMEOUT, Observed::by_nobody()).await.map_err(failed)?;
    let (mut requests, begun) = (0_u32, clock::now());
    while clock::now() - begun < clock::micros(ROUND) {
        session.exists(PATH).await.map_err(failed)?;
        requests += 1;
    }
    let rate = f64::from(requests) * 1e6 / (clock::now() - begun) as f64;
    session.close(TIMEOUT).await;
    Ok(rate)
}

/// A session implemented directly on a socket. It connects and then sends only reads.
struct Socket(TcpStream);

impl Socket {
    fn open(server: &str) -> io::Result<Self> {
        let mut socket = Self(TcpStream::connect(server)?);
        socket.0.set_nodelay(true)?;
        let timeout = i32::try_from(TIMEOUT.as_millis()).unwrap_or(i32::MAX);
        // Protocol version, last zxid, timeout, session, and length and bytes of the password
        let fields: [&[u8]; 6] =
            [&[0; 4], &[0; 8], &timeout.to_be_bytes(), &[0; 8], &16_i32.to_be_bytes(), &[0; 16]];
        socket.asked(&fields.concat())?;
        Ok(socket)
    }

    fn rate(&mut self) -> io::Result<f64> {
        let (mut requests, begun) = (0_i32, clock::now());
        while clock::now() - begun < clock::micros(ROUND) {
            const EXISTS: i32 = 3;
            let length = i32::try_from(PATH.len()).unwrap_or_default();
            let fields: [&[u8]; 5] = [
                &requests.to_be_bytes(),
                &EXISTS.to_be_bytes(),
                &length.to_be_bytes(),
                PATH.as_bytes(),
                &[0],
            ];
            self.asked(&fields.concat())?;
            requests += 1;
        }
        Ok(f64::from(requests) * 1e6 / (clock::now() - begun) as f64)
    }

    /// Sends a frame and waits for the reply.
    fn asked(&mut self, body: &[u8]) -> io::Result<()> {
        let length = u32::try_from(body.len()).unwrap_or_default();
        self.0.write_all(&[&length.to_be_bytes(), body].concat())?;
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut reply = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut reply)
    }
}
