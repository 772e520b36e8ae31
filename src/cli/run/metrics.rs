//! `/metrics`: serves the state of a run in progress to Prometheus and similar tools.
//!
//! The server runs on a separate thread and reads only the state of the progress display, so requests do not
//! delay contenders. It renders the text at most a few times a second. Connections are limited in number and
//! duration. Above the limit, a new connection displaces the oldest one, so idle clients do not block others.

#![expect(clippy::disallowed_methods, reason = "the age of the rendered text does not affect measurements")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::cli::output;

use crate::run::RunEvent;
use zklockbench_core::error::Error;
use zklockbench_core::locked::locked;
use zklockbench_load::EnvironmentEvent;
use zklockbench_report::ci::{Live, openmetrics};

/// Maximum number of concurrent connections.
const AT_ONCE: usize = 32;
/// Maximum duration of a connection.
const CONNECTION_LASTS: Duration = Duration::from_secs(5);
/// Maximum age of a rendered text.
const TEXT_LASTS: Duration = Duration::from_millis(250);
const HEAD_AT_MOST: usize = 16 * 1024;

/// Parses the address of `/metrics`: an address with a port, or only a port for localhost.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    let address = port.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    address.or_else(|_| text.parse()).map_err(|_| {
        format!(
            "`{text}` is not an address with a port; write, for example, 127.0.0.1:9100, [::1]:9100 or 9100"
        )
    })
}

/// A bound port.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
}

impl Port {
    /// Binds the port. Must be called before the process moves to a separate network.
    pub fn take(asked: SocketAddr) -> Result<Self, Error> {
        let taken = TcpListener::bind(asked).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        });
        let (address, listener) = taken.map_err(|error| {
            Error::environment(format!(
                "cannot serve /metrics on {asked}: {error}; set another port with --metrics"
            ))
        })?;
        if !address.ip().is_loopback() {
            output::warn(format!(
                "anyone who can reach this host can read /metrics on {address}, which shows what is \
                 measured, but no passwords"
            ));
        }
        Ok(Self { listener, address })
    }

    /// Serves the state of the run until the endpoint is dropped.
    pub fn serve(self, live: Live) -> Result<Endpoint, Error> {
        let Self { listener, address } = self;
        let shared = Arc::new(MetricsShared { live: Mutex::new(live), text: Mutex::new(None) });
        let (served, stop) = (Arc::clone(&shared), CancellationToken::new());
        let stopped = stop.clone();
        let begin = move || accept(listener, &served, &stopped);
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(begin);
        let thread = thread.map_err(|error| Error::environment(format!("cannot serve /metrics: {error}")))?;
        Ok(Endpoint { shared, address, stop, thread: Some(thread) })
    }
}

/// Serves `/metrics` until dropped.
#[derive(Debug)]
pub struct Endpoint {
    shared: Arc<MetricsShared>,
    address: SocketAddr,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct MetricsShared {
    live: Mutex<Live>,
    text: Mutex<Option<(Instant, String)>>,
}

impl Endpoint {
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    pub fn event(&self, event: &RunEvent<'_>) {
        let mut live = locked(&self.shared.live);
        match event {
            RunEvent::TrialBegins(spec) => {
                live.trial_begins(&spec.strategy.label, spec.contenders, spec.repetition)
            }
            RunEvent::Within(EnvironmentEvent::Phase { name, .. }) => live.phase(name),
            RunEvent::Within(EnvironmentEvent::Tick { acquired, .. }) => live.acquired(*acquired),
            RunEvent::AlreadyThere(spec) if spec.makes_up_for.is_none() => live.already_there(),
            RunEvent::Within(EnvironmentEvent::Note(_) | EnvironmentEvent::Warning(_))
            | RunEvent::AlreadyThere(_)
            | RunEvent::Counts(_) => {}
            RunEvent::TrialEnded(trial) => live.trial_ended(trial),
            RunEvent::RoundAdded(trials, _) | RunEvent::MadeAgain(trials) => live.more_planned(trials.len()),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // At the end of a run, the result of the thread does not matter.
            let _ = thread.join();
        }
    }
}

impl MetricsShared {
    /// Returns the rendered text, at most [`TEXT_LASTS`] old.
    fn text(&self) -> String {
        let mut text = locked(&self.text);
        if let Some((_, text)) = text.as_ref().filter(|(made, _)| made.elapsed() < TEXT_LASTS) {
            return text.clone();
        }
        // Render a copy, so the run does not wait for the lock.
        let live = locked(&self.live).clone();
        let made = live.render(SystemTime::now());
        *text = Some((Instant::now(), made.clone()));
        made
    }
}

fn accept(listener: TcpListener, shared: &Arc<MetricsShared>, stop: &CancellationToken) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
        let mut served: VecDeque<AbortHandle> = VecDeque::new();
        let serving = async {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    // Avoid a busy loop, e.g. when too many files are open.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let shared = Arc::clone(shared);
                let connection = tokio::spawn(async move {
                    let answers = service_fn(move |request| {
                        let answer = answer(&request, &shared);
                        async move { Ok::<_, Infallible>(answer) }
                    });
                    let connection = http1::Builder::new()
                        .timer(TokioTimer::new())
                        .header_read_timeout(CONNECTION_LASTS)
                        .max_buf_size(HEAD_AT_MOST)
                        .keep_alive(false)
                        .serve_connection(TokioIo::new(stream), answers);
                    // Disconnects and malformed requests are ignored.
                    let _ = tokio::time::timeout(CONNECTION_LASTS, connection).await;
                });
                served.retain(|connection| !connection.is_finished());
                if served.len() >= AT_ONCE
                    && let Some(oldest) = served.pop_front()
                {
                    oldest.abort();
                }
                served.push_back(connection.abort_handle());
            }
        };
        tokio::select! {
            () = serving => {}
            () = stop.cancelled() => {}
        }
    });
}

fn answer(request: &Request<Incoming>, shared: &MetricsShared) -> Response<String> {
    let text = |status, text: &str| {
        let mut response = Response::new(text.to_owned());
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response
    };
    if request.uri().path() != "/metrics" {
        return text(StatusCode::NOT_FOUND, "not found; only /metrics is served\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are supported\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let accepted = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let reads_openmetrics = accepted
        .flat_map(|value| value.split(','))
        .any(|one| one.trim().starts_with("application/openmetrics-text"));
    let (content_type, text) = if reads_openmetrics {
        (openmetrics::CONTENT_TYPE, shared.text())
    } else {
        (openmetrics::PLAIN_CONTENT_TYPE, openmetrics::plain(&shared.text()))
    };
    let mut response = Response::new(text);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;
    use zklockbench_scenario::{TrialPlan, parse};

    fn endpoint() -> Endpoint {
        let port = Port::take(address("0").unwrap()).unwrap();
        port.serve(Live::new("quick", SystemTime::UNIX_EPOCH, 4)).unwrap()
    }

    fn ask(endpoint: &Endpoint, request: &str) -> String {
        let mut stream = TcpStream::connect(endpoint.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn metrics_address_without_a_host_is_local() {
        let shown = |text| address(text).map(|address| address.to_string());
        assert_eq!(shown("9100"), Ok("127.0.0.1:9100".into()));
        assert_eq!(shown(":9100"), Ok("127.0.0.1:9100".into()));
        assert_eq!(shown("0.0.0.0:80"), Ok("0.0.0.0:80".into()));
        assert_eq!(shown("[::1]:9100"), Ok("[::1]:9100".into()));
        for wrong in ["", "host:9100", "70000", "1.2.3.4"] {
            assert!(address(wrong).unwrap_err().contains("127.0.0.1:9100"), "{wrong}");
        }
    }

    #[test]
    fn port_in_use_is_reported_with_its_address() {
        let first = Port::take(address("0").unwrap()).unwrap();
        let told = Port::take(first.address).unwrap_err();
        assert!(
            matches!(&told, Error::Environment(why) if why.contains(&first.address.to_string())),
            "{told}"
        );
    }

    #[test]
    fn only_the_metrics_path_is_served() {
        let endpoint = endpoint();
        let found = ask(&endpoint, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(found.starts_with("HTTP/1.1 200 OK\r\n"), "{found}");
        assert!(found.ends_with("\nzklockbench_trials_planned{} 4.0\n"), "{found}");
        for (request, status) in [
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
            ("GET /metrics/../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "405"),
            ("nonsense\r\n\r\n", "400"),
        ] {
            let answer = ask(&endpoint, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        }
    }

    #[test]
    fn trials_of_a_resumed_run_that_will_not_run_are_not_planned() {
        let text = "name = \"x\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 2\nduration = \"5s\"\n";
        let parsed = parse("x.toml", text, &zklockbench_load::catalog()).unwrap();
        let mut spec = TrialPlan::of(&parsed.scenario).trials[0].clone();
        let endpoint = endpoint();
        endpoint.event(&RunEvent::AlreadyThere(&spec));
        // A replacement is not among the planned trials.
        spec.makes_up_for = Some(0);
        endpoint.event(&RunEvent::AlreadyThere(&spec));
        let found = ask(&endpoint, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(found.ends_with("\nzklockbench_trials_planned{} 3.0\n"), "{found}");
    }

    #[test]
    fn openmetrics_is_served_only_to_clients_that_accept_it() {
        let endpoint = endpoint();
        for (accept, content_type) in [
            ("", "text/plain; version=0.0.4"),
            ("Accept: */*\r\n", "text/plain; version=0.0.4"),
            ("Accept: text/plain;version=0.0.4\r\n", "text/plain; version=0.0.4"),
            ("Accept: application/openmetrics-text\r\n", "application/openmetrics-text; version=1.0.0"),
            (
                "Accept: text/html;q=0.1, application/openmetrics-text;version=1.0.0;q=0.8\r\n",
                "application/openmetrics-text; version=1.0.0",
            ),
        ] {
            let answer = ask(&endpoint, &format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{accept}\r\n"));
            assert!(answer.contains(&format!("content-type: {content_type}")), "{accept}: {answer}");
            let is_openmetrics = content_type.starts_with("application/openmetrics-text");
            assert_eq!(answer.ends_with("# EOF\n"), is_openmetrics, "{accept}: {answer}");
        }
    }

    #[test]
    fn silent_clients_delay_neither_other_clients_nor_shutdown() {
        let endpoint = endpoint();
        let mut silent: Vec<TcpStream> =
            (0..3 * AT_ONCE).map(|_| TcpStream::connect(endpoint.address).unwrap()).collect();
        // Half of the clients send an incomplete request.
        for stream in silent.iter_mut().step_by(2) {
            // Writing fails on the oldest connections, which have already been displaced.
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:");
        }
        for _ in 0..10 {
            let began = Instant::now();
            let found = ask(&endpoint, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
            assert!(found.starts_with("HTTP/1.1 200 OK\r\n"), "{found}");
            assert!(began.elapsed() < CONNECTION_LASTS, "{:?}", began.elapsed());
        }
        let began = Instant::now();
        drop(endpoint);
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        drop(silent);
    }
}
