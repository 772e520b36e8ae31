//! Ensembles that authenticate clients with SASL or encrypt connections with TLS.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::support::program::{Bench, eventually, says, stderr, walk, went_through};
use crate::support::servers::{self, Server, handshakes, tool};
use crate::support::skip::skipped;
use crate::support::{depth, ensemble, foreign};

const PASSWORD: &str = "hunter2";
/// Time limit for reporting why a start failed, on a busy host.
const EXPLAINED_WITHIN: Duration = Duration::from_secs(30);

fn with_password(bench: &Bench, words: &[&str], password: Option<&str>) -> Output {
    let mut command = bench.command(words);
    command.envs(password.map(|password| ("ZKLOCKBENCH_SASL_PASSWORD", password)));
    command.output().unwrap()
}

fn assert_secret_is_in_no_file_of(directory: &Path) {
    for file in walk(directory).into_iter().filter(|path| path.is_file()) {
        let contents = std::fs::read(&file).unwrap();
        let found = contents.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes());
        assert!(!found, "the password is in {}", file.display());
    }
}

/// Returns the faults of the run: the label, whether the fault was proved, and the proof.
fn faults(bench: &Bench) -> Vec<(String, bool, String)> {
    let stored = bench.stored();
    let faults = stored.trials.iter().flat_map(|trial| &trial.faults);
    faults.map(|fault| (fault.label.clone(), fault.proved, fault.proof.clone())).collect()
}

/// Scenario in which a session expires, and later all connections are reset. The strategies are in quotes.
fn expire_and_reset(strategies: &[&str]) -> String {
    format!(
        "name = \"x\"\nstrategies = [{}]\ncontenders = 3\nhold = \"5ms\"\nduration = \"3s\"\nwarm_up = \"0s\"\n\
         repetitions = 1\nsession_timeout = \"4s\"\n\
         [[fault]]\nkind = \"expire\"\ntarget = \"any\"\nat = \"200ms\"\n\
         [[fault]]\nkind = \"reset\"\ntarget = \"all\"\nat = \"2s\"\n",
        strategies.join(", ")
    )
}

#[test]
fn suite_and_driver_sessions_authenticate_with_sasl() {
    let bench = Bench::new();
    let server = servers::with_sasl(&bench.path("server"));
    // Compiling and starting Curator's driver takes longer than the rest of the test.
    let curator = depth::is_long().then(|| foreign::curator(&bench.path("cache"))).flatten();
    let drivers: Vec<String> = [foreign::kazoo(), curator].into_iter().flatten().collect();
    let locks = ["\"kazoo:Lock\"", "\"curator:InterProcessMutex\""];
    let driven = locks.iter().filter(|lock| drivers.iter().any(|driver| driver[..5] == lock[1..6]));
    let strategies: Vec<&str> = ["\"predecessor-watch\""].into_iter().chain(driven.copied()).collect();
    bench.scenario(&expire_and_reset(&strategies));
    let mut words =
        vec!["run", "scenario.toml", "--connect", &server.address, "--allow-faults", "--no-progress"];
    words.extend(["--counting", "never", "--sasl", "bench"]);
    words.extend(drivers.iter().flat_map(|driver| ["--driver", driver]));
    let output = with_password(&bench, &words, Some(PASSWORD));
    went_through(&output);
    let stored = bench.stored();
    assert_eq!(stored.trials.len(), strategies.len());
    for trial in &stored.trials {
        assert!(trial.measured.acquired() > 10, "{}: {:?}", trial.spec.strategy.name, trial.errors);
    }
    assert!(faults(&bench).iter().all(|(_, proved, _)| *proved), "{:?}", faults(&bench));
    assert_secret_is_in_no_file_of(&bench.path("results"));
    // And another command, with the password from a file, finds no nodes.
    std::fs::write(bench.path("password"), format!("{PASSWORD}\n")).unwrap();
    let sasl = "--sasl digest-md5:bench --sasl-password-file password";
    bench.shows(&format!("clean --connect {} {sasl}", server.address));
}

#[test]
fn sasl_failures_are_reported_with_the_cause_and_remedy() {
    let bench = Bench::new();
    let server = servers::with_sasl(&bench.path("server"));
    let without = ensemble::shared();
    for (connect, sasl, password, code, expected) in [
        (&*server.address, None, None, 3, "set --sasl to a SASL user, and set ZKLOCKBENCH_SASL_PASSWORD"),
        (&server.address, Some("bench"), Some("guess"), 3, "rejected the user or password given with --sasl"),
        (&server.address, Some("other"), Some("guess"), 3, "rejected the user or password given with --sasl"),
        (without, Some("bench"), Some(PASSWORD), 3, "do not support SASL: remove --sasl"),
        (&server.address, Some("bench"), None, 2, "--sasl requires a password"),
        (&server.address, Some("bench:hunter2"), None, 2, "a password belongs in ZKLOCKBENCH_SASL_PASSWORD"),
    ] {
        let begun = Instant::now();
        let mut words = vec!["clean", "--connect", connect];
        words.extend(sasl.iter().flat_map(|name| ["--sasl", name]));
        let output = with_password(&bench, &words, password);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{sasl:?}: {said}");
        assert!(said.contains(expected) && !said.contains(PASSWORD), "{sasl:?}: {said}");
        assert!(begun.elapsed() < EXPLAINED_WITHIN, "{:?}: {said}", begun.elapsed());
    }
}

#[test]
fn sasl_password_is_not_sent_to_an_ensemble_from_a_scenario() {
    let bench = Bench::with(&format!(
        "name = \"x\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 2\nduration = \"1s\"\n[ensemble]\nconnect = \"{}\"\n",
        ensemble::shared()
    ));
    let output = with_password(&bench, &["run", "scenario.toml", "--sasl", "bench"], Some(PASSWORD));
    says(&output, 2, "credentials from --sasl are sent only to");
}

/// Creates a server's key store for the name zk1.test, a Java trust store with the same certificate, and a client's
/// key store.
fn make_stores(directory: &Path) {
    let keytool =
        "keytool -keyalg RSA -keysize 2048 -validity 365 -storepass changeit -keypass changeit -genkeypair";
    let server = "-dname CN=zk1.test -ext san=dns:zk1.test -storetype PKCS12 -keystore server.p12";
    let lines = format!(
        "{keytool} -alias zk {server}
        {keytool} -alias me -dname CN=me -storetype JKS -keystore client.jks
        openssl pkcs12 -in server.p12 -nokeys -passin pass:changeit -out zk.pem
        keytool -importcert -noprompt -alias zk -file zk.pem -storetype JKS -keystore trust.jks -storepass changeit
        keytool -exportcert -rfc -alias me -keystore client.jks -storepass changeit > me.pem"
    );
    tool(directory, &lines, "");
}

/// Runs the command that a message shows between backquotes, with the stores' password.
fn follow(directory: &Path, said: &str) {
    let advice = said.split('`').nth(1).unwrap_or_else(|| panic!("no command in: {said}"));
    let line = advice
        .replace("-importkeystore ", "-importkeystore -srcstorepass changeit -deststorepass changeit ")
        .replace("openssl pkcs12 ", "openssl pkcs12 -passin pass:changeit ");
    tool(directory, &line, "changeit\n");
}

fn tls_words<'a>(server: &'a Server, ca: &'a str, cert: &'a str, key: &'a str) -> Vec<&'a str> {
    vec!["--connect", &server.address, "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key]
}

#[test]
#[ignore = "long: keytool starts a JVM for each store"]
fn java_key_stores_are_rejected_with_commands_to_convert_them() {
    let bench = Bench::new();
    make_stores(bench.dir.path());
    let server = servers::with_tls(&bench.path("server"), &bench.path("server.p12"), &bench.path("me.pem"));
    let refused = |ca, cert, key, file: &str| {
        let output = bench.output(&[vec!["clean"], tls_words(&server, ca, cert, key)].concat());
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(&format!("{file} is a")), "{said}");
        follow(bench.dir.path(), &said);
    };
    refused("trust.jks", "client.jks", "client.jks", "trust.jks");
    refused("ca.pem", "client.jks", "client.jks", "client.jks");
    refused("ca.pem", "client.pem", "client.p12", "client.p12");
    // After the conversion, the files are valid, but the certificate is for another name.
    let words = tls_words(&server, "ca.pem", "client.pem", "client.key");
    let begun = Instant::now();
    let output = bench.output(&[vec!["clean"], words.clone()].concat());
    let said = stderr(&output);
    assert!(said.contains("for zk1.test, not for `127.0.0.1`"), "{said}");
    assert!(said.contains("--tls-server-name zk1.test"), "{said}");
    assert!(begun.elapsed() < EXPLAINED_WITHIN, "{:?}", begun.elapsed());
    // With this name, a run works, and connection faults that do not read requests are proved.
    bench.scenario(
        "name = \"x\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 3\nhold = \"5ms\"\nduration = \"4s\"\n\
         warm_up = \"0s\"\nrepetitions = 1\nsession_timeout = \"4s\"\n\
         [[fault]]\nkind = \"delay\"\nlatency = \"10ms\"\nat = \"500ms\"\nduration = \"500ms\"\n\
         [[fault]]\nkind = \"reset\"\ntarget = \"all\"\nat = \"1500ms\"\n\
         [[fault]]\nkind = \"stall\"\ntarget = \"any\"\nat = \"2s\"\nduration = \"300ms\"\n\
         [[fault]]\nkind = \"refuse\"\ntarget = \"any\"\nat = \"3s\"\nduration = \"300ms\"\n",
    );
    let run = vec!["run", "scenario.toml", "--allow-faults", "--no-progress"];
    went_through(&bench.output(&[run, words, vec!["--tls-server-name", "zk1.test"]].concat()));
    let config = &bench.stored().run.ensemble.config;
    assert!(config.iter().any(|(key, _)| key == "secureClientPort"), "not read over TLS: {config:?}");
    let faults = faults(&bench);
    assert!(faults.len() == 4 && faults.iter().all(|(_, proved, _)| *proved), "{faults:?}");
}

#[test]
fn host_name_with_three_addresses_counts_as_three_servers_with_tls() {
    if !rustix::process::geteuid().is_root() {
        skipped("cannot mount another /etc/hosts without root");
        return;
    }
    // Given three servers behind one name, with a certificate for only this name
    let bench = Bench::new();
    let here = bench.dir.path();
    let new = "openssl req -x509 -newkey rsa:2048 -nodes -addext basicConstraints=critical,CA:FALSE";
    let lines = format!(
        "{new} -subj /CN=zk.test -addext subjectAltName=DNS:zk.test -keyout zk.key -out zk.pem
        {new} -subj /CN=me -keyout me.key -out me.pem
        openssl pkcs12 -export -in zk.pem -inkey zk.key -passout pass:changeit -out zk.p12"
    );
    tool(here, &lines, "");
    let (key_store, trust_store) = (here.join("zk.p12"), here.join("me.pem"));
    let config = |host: &str, port| servers::tls_config(host, port, &key_store, &trust_store);
    let servers = servers::three(&bench.path("servers"), config);
    let addresses: Vec<&str> = servers.iter().map(|server| server.address.as_str()).collect();
    let files = ["--tls-ca", "zk.pem", "--tls-cert", "me.pem", "--tls-key", "me.key"];
    for address in &addresses {
        let clean = [&["clean", "--connect", address, "--tls-server-name", "zk.test"][..], &files].concat();
        eventually("the server serves", Duration::from_secs(20), || bench.output(&clean).status.success());
    }
    bench.scenario(&expire_and_reset(&["\"predecessor-watch\""]));
    let (_, port) = addresses[0].split_once(':').unwrap();
    let hosts: String = (1..=3).map(|id| format!("127.0.0.{id} zk.test other.test\n")).collect();
    let run = |name: &str| {
        let connect = format!("{name}:{port}");
        let words = ["run", "scenario.toml", "--connect", &connect, "--allow-faults", "--no-floor"];
        bench.command_with_file("/etc/hosts", &hosts, &[&words[..], &files].concat()).output().unwrap()
    };
    // When the name is the connect string
    went_through(&run("zk.test"));
    // Then the run uses all three servers, even through proxies and to expire a session
    let stored = bench.stored();
    assert_eq!(stored.run.ensemble.connect, addresses.join(","));
    let listed = &stored.run.ensemble.servers;
    let roles: Vec<&str> = listed.iter().map(|server| server.role.as_str()).collect();
    assert_eq!(listed.iter().map(|server| server.address.as_str()).collect::<Vec<_>>(), addresses);
    assert_eq!(roles.iter().filter(|role| **role == "follower").count(), 2, "{roles:?}");
    let faults = faults(&bench);
    assert!(faults.len() == 2 && faults.iter().all(|(_, proved, _)| *proved), "{faults:?}");
    // And a name that is not in the certificate is reported with a remedy
    let begun = Instant::now();
    let output = run("other.test");
    let said = stderr(&output);
    let expected = format!("{} has a certificate for zk.test, not for `other.test`", addresses[2]);
    assert!(output.status.code() == Some(3) && said.contains(&expected), "{said}");
    assert!(said.contains("--tls-server-name zk.test"), "{said}");
    assert!(begun.elapsed() < EXPLAINED_WITHIN, "{:?}: {said}", begun.elapsed());
}

#[test]
fn faults_that_read_requests_are_rejected_with_tls() {
    let bench = Bench::with(
        "name = \"x\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 2\nduration = \"3s\"\n[[fault]]\nkind = \"drop-reply\"\nat = \"1s\"\n",
    );
    let said = bench.refuses("run scenario.toml --connect 127.0.0.1:1 --tls --allow-faults");
    assert!(said.contains("`drop-reply` must read requests, but TLS encrypts them"), "{said}");
}

#[test]
fn unusable_client_keys_and_certificates_are_rejected_before_connecting() {
    let bench = Bench::new();
    let here = bench.dir.path();
    let new = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=me";
    let keytool = "keytool -genkeypair -alias me -dname CN=me -storepass changeit -storetype PKCS12";
    let lines = format!(
        "{new} -keyout mine.key -out mine.pem
        {new} -keyout other.key -out other.pem
        openssl pkey -aes256 -in mine.key -passout pass:x -out encrypted.key
        openssl x509 -in mine.pem -outform DER -out mine.der
        {keytool} -keyalg RSA -startdate -3d -validity 1 -keystore expired.p12
        openssl pkcs12 -in expired.p12 -nodes -passin pass:changeit -out expired.pem
        {keytool} -keyalg EC -keystore ec.p12
        openssl pkcs12 -in ec.p12 -nodes -passin pass:changeit -out ec.pem"
    );
    tool(here, &lines, "");
    let der = "mine.der is in DER, but --tls-ca requires PEM: convert it with `openssl x509";
    let other = "the key in other.key does not belong to the first certificate in mine.pem";
    let expired = "expired.pem cannot be used for --tls-cert: it expired on ";
    for (ca, cert, key, expected) in [
        ("mine.pem", "ec.pem", "ec.pem", "to add it, run `openssl ec -in ec.pem -out client.key`"),
        ("mine.der", "mine.pem", "mine.key", der),
        ("mine.pem", "mine.pem", "encrypted.key", "encrypted.key is encrypted with a passphrase"),
        ("mine.pem", "mine.pem", "other.key", other),
        ("mine.pem", "mine.key", "mine.key", "mine.key contains a private key instead of a certificate"),
        ("mine.pem", "expired.pem", "expired.pem", expired),
        ("mine.key", "mine.pem", "mine.key", "mine.key contains a private key instead of a certificate"),
        ("no.pem", "mine.pem", "mine.key", "no.pem: No such file"),
    ] {
        let files = format!("--tls-ca {ca} --tls-cert {cert} --tls-key {key}");
        let said = bench.refuses(&format!("clean --connect 127.0.0.1:1 {files}"));
        assert!(said.contains(expected), "{files}: {said}");
    }
}

#[test]
fn rejected_server_certificates_are_reported_with_a_remedy() {
    let bench = Bench::new();
    let here = bench.dir.path();
    let new = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=127.0.0.1";
    let own = "-addext basicConstraints=critical,CA:FALSE";
    let keytool =
        "keytool -genkeypair -keyalg EC -dname CN=zk -startdate -3d -validity 1 -storepass changeit";
    let lines = format!(
        "{new} -addext subjectAltName=IP:127.0.0.1 -keyout authority.pem -out - >> authority.pem
        {new} {own} -keyout nameless.pem -out - >> nameless.pem
        {new} {own} -addext subjectAltName=DNS:zk1,DNS:zk2 -keyout named.pem -out - >> named.pem
        {keytool} -alias zk -ext san=ip:127.0.0.1 -keystore old.p12 -storetype PKCS12
        openssl pkcs12 -in old.p12 -nodes -passin pass:changeit -out expired.pem"
    );
    tool(here, &lines, "");
    let explains = |file: &str, expected: &str| {
        let server = handshakes(here, file);
        let begun = Instant::now();
        let output = bench.output(&["clean", "--connect", &server.address, "--tls-ca", file]);
        let said = stderr(&output);
        assert!(output.status.code() == Some(3) && said.contains(expected), "{file}: {said}");
        assert!(begun.elapsed() < EXPLAINED_WITHIN, "{:?}: {said}", begun.elapsed());
    };
    let nameless = "has a certificate without a subject alternative name: create a new one with `keytool";
    std::thread::scope(|scope| {
        for (file, expected) in [
            ("authority.pem", "uses an authority's certificate (CA:TRUE) as its own"),
            ("nameless.pem", nameless),
            ("named.pem", "has a certificate for zk1 and zk2, not for `127.0.0.1`"),
            ("expired.pem", "has an invalid certificate: it expired on "),
        ] {
            scope.spawn(move || explains(file, expected));
        }
    });
}
