//! Options shared by several commands.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, ValueEnum};

use zklockbench_analysis::compare::Terms;

use zklockbench_core::error::Error;
use zklockbench_core::measure::Figure;
use zklockbench_core::units::{as_a_word, parse_duration, run_id};
use zklockbench_ensemble::CONNECT_VARIABLE;
use zklockbench_locks::DrivenLocks;
use zklockbench_record::figures;
use zklockbench_scenario::{Columns, Scenario, TimeUnit};
use zklockbench_zk::{Access, Sasl, Secret, Tls, TlsFiles};

/// Options for comparisons by `compare`, `ab` and `baseline check`.
#[derive(Debug, Args)]
pub struct Judging {
    /// Metric to compare, e.g. throughput or wait.p99; may be repeated [default: depends on the load]
    #[arg(long = "figure", value_name = "METRIC", value_parser = figures::named)]
    pub figures: Vec<Figure>,
    /// Smallest relevant difference for all metrics (5%) or for one metric (wait.p99=20%); may be repeated
    /// [default: 5% for `ab`, otherwise one per metric]
    #[arg(long = "margin", value_name = "[METRIC=]PERCENT", value_parser = margin)]
    pub margins: Vec<Margin>,
    /// Maximum probability of a false alarm in a family of comparisons: losses, or all other metrics
    #[arg(long, value_name = "P", default_value = "0.05", value_parser = alpha)]
    pub alpha: f64,
}

impl Judging {
    /// Returns the terms of the comparison. `margin` is the default for all metrics; `None` if each metric has
    /// its own default.
    pub fn terms(&self, margin: Option<f64>) -> Terms {
        let of_all = self.margins.iter().rev().find(|(figure, _)| figure.is_none()).map(|(_, share)| *share);
        let of_one = |(figure, share): &Margin| Some((figure.as_ref()?.to_string(), *share));
        Terms {
            alpha: self.alpha,
            margin: of_all.or(margin),
            margins: self.margins.iter().filter_map(of_one).collect(),
        }
    }

    pub fn has_margin_of_all(&self) -> bool {
        self.margins.iter().any(|(figure, _)| figure.is_none())
    }
}

/// A metric and its relative margin; `None` for all metrics without their own margin.
type Margin = (Option<Figure>, f64);

/// Options that choose the ensemble.
#[derive(Debug, Clone, Default, Args)]
pub struct PlaceArgs {
    /// Use this ensemble instead of a local one, optionally with a chroot, e.g. zk1:2181,zk2:2181/bench
    #[arg(long, value_name = "HOST:PORT,…", env = CONNECT_VARIABLE, conflicts_with_all = ["servers", "data_dir"])]
    pub connect: Option<String>,
    /// Use servers in containers that are started from this Compose file and removed afterwards
    #[arg(long, value_name = "FILE", conflicts_with_all = ["servers", "data_dir", "connect"])]
    pub compose: Option<PathBuf>,
    /// Size of the local ensemble: 1, 3 or 5 servers
    #[arg(long, value_name = "N")]
    pub servers: Option<i64>,
    /// Directory under which local servers keep their data
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// Options for files of arrivals or holds from other programs.
#[derive(Debug, Clone, Default, Args)]
pub struct ColumnArgs {
    /// Column with the times in a replayed file, by name or by number
    #[arg(long, value_name = "COLUMN")]
    pub time_column: Option<String>,
    /// Column with the locks in a replayed file
    #[arg(long, value_name = "COLUMN")]
    pub lock_column: Option<String>,
    /// Column with the holds in a file
    #[arg(long, value_name = "COLUMN")]
    pub hold_column: Option<String>,
    /// Unit of the times and holds: s, ms, us or ns
    #[arg(long, value_name = "UNIT")]
    pub time_unit: Option<TimeUnit>,
    /// Unit of the holds, if it differs from --time-unit
    #[arg(long, value_name = "UNIT")]
    pub hold_unit: Option<TimeUnit>,
}

impl ColumnArgs {
    pub fn columns(&self) -> Columns {
        Columns {
            time: self.time_column.clone(),
            lock: self.lock_column.clone(),
            hold: self.hold_column.clone(),
            time_unit: self.time_unit,
            hold_unit: self.hold_unit,
        }
    }

    pub fn are_given(&self) -> bool {
        self.columns() != Columns::default()
    }
}

/// Options for opening the ensemble.
#[derive(Debug, Clone, Default, Args)]
pub struct OpeningArgs {
    /// Start a fresh local ensemble instead of using the one from `ensemble up`
    #[arg(long)]
    pub fresh: bool,
    /// Skip the warm-up of the servers; saves time, but fresh servers respond slowly
    #[arg(long, env = "ZKLOCKBENCH_COLD", value_parser = clap::builder::FalseyValueParser::new())]
    pub cold: bool,
    /// Create the chroot of the connect string if missing; the chroot is not removed afterwards
    #[arg(long)]
    pub create_chroot: bool,
    /// Print only warnings and a one-line outcome
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub install: InstallArgs,
    #[command(flatten)]
    pub sharing: SharingArgs,
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Removes empty variables, which CI systems and Compose set for missing values. Must be called before threads are
/// started.
#[allow(unsafe_code, reason = "clap and the libraries read the variables one by one")]
pub fn forget_empty_variables() {
    let is_ours = |name: &OsString| name.as_encoded_bytes().starts_with(b"ZKLOCKBENCH_");
    let empty = std::env::vars_os().filter(|(name, value)| is_ours(name) && value.is_empty());
    for (name, _) in empty.collect::<Vec<_>>() {
        // SAFETY: no other thread is running yet that could read the environment.
        unsafe { std::env::remove_var(name) };
    }
}

/// Lets options override a variable that they conflict with; otherwise, clap would report a conflict. Must be called
/// before threads are started.
#[allow(unsafe_code, reason = "child processes must not inherit the variable")]
pub fn or_without_variable<T>(parse: impl Fn() -> Result<T, clap::Error>) -> Result<T, clap::Error> {
    let is_conflict = |error: &clap::Error| error.kind() == ErrorKind::ArgumentConflict;
    let conflict = match parse() {
        Err(error) if is_conflict(&error) => error,
        other => return other,
    };
    for variable in [CONNECT_VARIABLE, IDENTITY, SATURATION_VARIABLE, AT_MOST_VARIABLE] {
        let Some(value) = std::env::var_os(variable) else { continue };
        // SAFETY: no other thread is running yet that could read the environment.
        unsafe { std::env::remove_var(variable) };
        match parse() {
            // SAFETY: as above.
            Err(error) if is_conflict(&error) => unsafe { std::env::set_var(variable, value) },
            other => return other,
        }
    }
    Err(conflict)
}

/// Environment variables that a series passes to each of its runs.
pub const AT_MOST_VARIABLE: &str = "ZKLOCKBENCH_AT_MOST";
pub const SATURATION_VARIABLE: &str = "ZKLOCKBENCH_ALLOW_SATURATION";
pub const LATENCY_VARIABLE: &str = "ZKLOCKBENCH_STOP_IF_LATENCY";

/// Options that limit the load on an existing ensemble.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Load on an existing ensemble")]
pub struct SharingArgs {
    /// Maximum requests per second, e.g. 500/s [default: 200/s if other clients are connected]
    #[arg(long, value_name = "RATE", env = AT_MOST_VARIABLE, value_parser = rate)]
    pub at_most: Option<f64>,
    /// Do not limit the load if other clients are connected, which may slow them down severely
    #[arg(long, env = SATURATION_VARIABLE, conflicts_with = "at_most",
          value_parser = clap::builder::FalseyValueParser::new())]
    pub allow_saturation: bool,
    /// End the run when servers respond this many times slower than before [default: 3x if load is limited]
    #[arg(long, value_name = "FACTOR", env = LATENCY_VARIABLE, value_parser = factor)]
    pub stop_if_latency: Option<f64>,
}

/// Options for the load and its generator.
#[derive(Debug, Clone, Default, Args)]
pub struct GeneratorArgs {
    /// On an existing ensemble, allow faults and added round-trip time for the run's own contenders and connections
    #[arg(long)]
    pub allow_faults: bool,
    /// Number of load generator threads [default: a quarter of the processors, at least 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// When to count requests on the wire, in separate trials of 2 s: once for each strategy, but for each
    /// trial of a driver's lock
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub counting: CountingWhen,
}

/// When requests and replies of locks are counted on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CountingWhen {
    /// If a driver's lock is among the strategies
    #[default]
    Drivers,
    /// For every strategy
    Always,
    /// Never; the requests of drivers are then unknown
    Never,
}

impl CountingWhen {
    pub fn counts(self, scenario: &Scenario, locks: &DrivenLocks) -> bool {
        match self {
            Self::Drivers => scenario.strategies.iter().any(|strategy| locks.find(&strategy.name).is_some()),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Workers that share each run of a series.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load from several machines (docs/operating.md)")]
pub struct JobArgs {
    /// Run with this many workers: this process and the workers started with `worker --follow NAME`
    #[arg(long, value_name = "N", requires_all = ["job", "connect"], value_parser = clap::value_parser!(u16).range(2..=1_000))]
    pub workers: Option<u16>,
    /// Name of the job for `worker --follow`
    #[arg(long, value_name = "NAME", requires = "workers", value_parser = run_id)]
    pub job: Option<String>,
}

/// Options for judging and reporting a run.
#[derive(Debug, Clone, Default, Args)]
pub struct ConcludingArgs {
    /// Compare with this run, the newest commit in a baseline store, or the newest run in a directory, measured
    /// on a similar machine
    #[arg(long, value_name = "DIR")]
    pub baseline: Option<PathBuf>,
    /// Continue with a warning if there is no baseline yet, or none from a similar machine
    #[arg(long, requires = "baseline")]
    pub baseline_optional: bool,
    /// Count zombies as violations: contenders that keep holding the lock after losing their session
    #[arg(long)]
    pub strict: bool,
    /// Skip the charts and report.html
    #[arg(long, env = "ZKLOCKBENCH_NO_CHARTS", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_charts: bool,
}

/// Options for the location of ZooKeeper.
#[derive(Debug, Clone, Default, Args)]
pub struct InstallArgs {
    /// Directory of an unpacked ZooKeeper release [default: $ZOOKEEPER_HOME, or the release from
    /// `scripts/install --zookeeper`, or the system's package]
    // The search reads the variable, so an error can report whether the variable or the option was wrong.
    #[arg(long, value_name = "DIR")]
    pub zookeeper_home: Option<PathBuf>,
}

/// Environment variable with the digest identity.
const IDENTITY: &str = "ZKLOCKBENCH_AUTH";
static HAD_IDENTITY: AtomicBool = AtomicBool::new(false);
/// Environment variable with the password for `--sasl`. Passwords cannot be passed as an option.
pub const SASL_PASSWORD: &str = "ZKLOCKBENCH_SASL_PASSWORD";
static TAKEN_PASSWORD: OnceLock<Secret> = OnceLock::new();

/// Removes secrets from the environment after the command line is parsed, because child processes, such as
/// drivers, would inherit them. Must be called before threads are started.
#[allow(unsafe_code, reason = "no other way to keep the variables from all child processes")]
pub fn forget_identity() {
    if std::env::var_os(IDENTITY).is_some() {
        HAD_IDENTITY.store(true, Ordering::Relaxed);
        // SAFETY: no other thread is running that could read the environment.
        unsafe { std::env::remove_var(IDENTITY) };
    }
    if let Some(password) = std::env::var_os(SASL_PASSWORD) {
        // The password is set only here. A value that is not valid UTF-8 counts as an empty password.
        let _ = TAKEN_PASSWORD.set(Secret::from(password.into_string().unwrap_or_default()));
        // SAFETY: as above.
        unsafe { std::env::remove_var(SASL_PASSWORD) };
    }
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Access to an existing ensemble")]
pub struct AccessArgs {
    /// Digest identity with exclusive access to created nodes. Visible in the process list, unlike --auth-file and
    /// the variable
    #[arg(long, value_name = "USER:PASSWORD", env = IDENTITY, hide_env_values = true,
          value_parser = clap::value_parser!(Secret))]
    pub auth: Option<Secret>,
    /// Digest identity from the first line of a file
    #[arg(long, value_name = "FILE", conflicts_with = "auth")]
    pub auth_file: Option<PathBuf>,
    /// SASL user for DIGEST-MD5, with the password from ZKLOCKBENCH_SASL_PASSWORD or --sasl-password-file; for
    /// Kerberos, gssapi or gssapi:SERVICE
    #[arg(long, value_name = "USER")]
    pub sasl: Option<String>,
    /// Password of the SASL user from the first line of a file
    #[arg(long, value_name = "FILE", requires = "sasl")]
    pub sasl_password_file: Option<PathBuf>,
    /// Use TLS and trust the system's certificate authorities (or $SSL_CERT_FILE) unless --tls-ca is set
    #[arg(long)]
    pub tls: bool,
    /// Certificate authority to trust (PEM); implies --tls
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Client certificate (PEM); implies --tls
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Client key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Name to expect in the servers' certificates, instead of the host in --connect; implies --tls
    #[arg(long, value_name = "NAME")]
    pub tls_server_name: Option<String>,
}

impl AccessArgs {
    pub fn wants_tls(&self) -> bool {
        self.tls || self.tls_ca.is_some() || self.tls_cert.is_some() || self.tls_server_name.is_some()
    }

    pub fn is_any(&self) -> bool {
        self.auth.is_some() || self.auth_file.is_some() || self.sasl.is_some() || self.wants_tls()
    }

    /// Reads the credentials. `unnamed` is the address if only a scenario contains it. Credentials are sent only to
    /// addresses from the command line: a scenario may be untrusted, and any listener would receive the password.
    pub fn access(&self, unnamed: Option<&str>) -> Result<Access, Error> {
        let digest = match &self.auth_file {
            Some(file) => Some(Secret::read(file)?),
            None => self.auth.clone(),
        };
        if let (Some(source), Some(connect)) = (self.source_of_identity(), unnamed) {
            return Err(Error::usage(format!(
                "credentials from {source} are sent only to an address on the command line, but {connect} comes from \
                 the scenario: if you trust this address, add --connect {}",
                as_a_word(connect)
            )));
        }
        let sasl = self.sasl.as_ref().map(|name| Sasl::named(name, || self.sasl_password())).transpose()?;
        let files =
            TlsFiles { ca: self.tls_ca.clone(), cert: self.tls_cert.clone(), key: self.tls_key.clone() };
        let tls = self.wants_tls().then(|| Tls::read(&files, self.tls_server_name.as_deref())).transpose()?;
        Access::new(digest, sasl, tls)
    }

    pub fn wants_kerberos(&self) -> bool {
        let mechanism = self.sasl.as_ref().and_then(|name| name.split(':').next());
        mechanism.is_some_and(|mechanism| mechanism.eq_ignore_ascii_case("gssapi"))
    }

    fn source_of_identity(&self) -> Option<&'static str> {
        match (&self.auth_file, &self.auth, &self.sasl) {
            (Some(_), _, _) => Some("--auth-file"),
            (None, Some(_), _) if HAD_IDENTITY.load(Ordering::Relaxed) => Some(IDENTITY),
            (None, Some(_), _) => Some("--auth"),
            (None, None, Some(_)) => Some("--sasl"),
            (None, None, None) => None,
        }
    }

    fn sasl_password(&self) -> Result<Option<Secret>, Error> {
        match &self.sasl_password_file {
            Some(file) => Secret::read(file).map(Some),
            None => Ok(TAKEN_PASSWORD.get().cloned()),
        }
    }
}

/// Parses a margin in percent for all metrics (`5%`) or for one metric (`wait.p99=20%`).
fn margin(text: &str) -> Result<Margin, String> {
    match text.split_once('=') {
        Some((figure, share)) => Ok((Some(figures::named(figure.trim())?), percentage(share.trim())?)),
        None => Ok((None, percentage(text)?)),
    }
}

pub fn percentage(text: &str) -> Result<f64, String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    let percent = within(text, digits.trim(), 0.0..=100.0, "a margin: must be between 0% and 100%, e.g. 5%")?;
    Ok(percent / 100.0)
}

/// Parses a rate per second, such as `200/s` or `200`.
fn rate(text: &str) -> Result<f64, String> {
    let digits = text.trim().trim_end_matches("/s").trim_end();
    within(text, digits, 1.0..=1e9, "a rate: write requests per second, e.g. 200/s")
}

/// Parses a factor, such as `3x` or `3`.
fn factor(text: &str) -> Result<f64, String> {
    let digits = text.trim().trim_end_matches('x');
    within(text, digits, 1.1..=1e6, "a valid factor: must be at least 1.1, e.g. 3x")
}

fn alpha(text: &str) -> Result<f64, String> {
    within(text, text, 0.000_1..=0.5, "a valid probability: must be between 0.0001 and 0.5, e.g. 0.05")
}

/// Parses a number within a range; `what` describes it in the error.
fn within(text: &str, digits: &str, range: RangeInclusive<f64>, what: &str) -> Result<f64, String> {
    let number = digits.parse::<f64>().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("`{text}` is not {what}"))
}

/// Largest seed, because scenarios store the seed as a signed 64-bit integer.
pub const SEEDS: u64 = i64::MAX as u64;

/// Returns a parser for durations between two limits, which are passed as text.
pub fn duration_within(
    least: &'static str,
    most: &'static str,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text: &str| {
        let duration = parse_duration(text)?;
        let fits = (parse_duration(least)?..=parse_duration(most)?).contains(&duration);
        if fits {
            Ok(duration)
        } else {
            Err(format!("`{text}` is out of range: must be between {least} and {most}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_are_percentages_and_alpha_is_a_probability() {
        let of_all = |share| Ok((None, share));
        assert_eq!((margin("5%"), margin("0%"), margin("2.5 %")), (of_all(0.05), of_all(0.0), of_all(0.025)));
        let of_throughput = (Some(figures::THROUGHPUT.figure()), 0.2);
        assert_eq!(margin("throughput=20%"), Ok(of_throughput));
        for wrong in
            ["5", "-1%", "101%", "NaN%", "inf%", "%", "5 percent", "thruput=5%", "throughput=", "=5%"]
        {
            assert!(margin(wrong).is_err(), "{wrong}");
        }
        assert_eq!(alpha("0.01"), Ok(0.01));
        for wrong in ["0", "1", "NaN", "5%", "-0.05"] {
            assert!(alpha(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_and_factors_accept_an_optional_unit() {
        assert_eq!((rate("200/s"), rate("1500"), factor("3x")), (Ok(200.0), Ok(1_500.0), Ok(3.0)));
        assert_eq!(factor("1.5"), Ok(1.5));
        for wrong in ["", "0", "-1/s", "NaN", "inf", "200/min", "fast"] {
            assert!(rate(wrong).is_err() && factor(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_out_of_range_are_rejected() {
        let budget = duration_within("1s", "1h");
        assert_eq!(budget("90s"), Ok(Duration::from_secs(90)));
        for wrong in ["0s", "999ms", "2h", "40", "soon"] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
    }
}
