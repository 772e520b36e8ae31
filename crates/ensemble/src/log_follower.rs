//! Follows an ensemble's transaction logs while the servers write them, in transaction order.
//!
//! A server may lack transactions from before it was wiped or after it was stopped. A leader that was cut off
//! may have logged transactions that the other servers never accepted; it discards them when it rejoins. A
//! transaction is therefore passed on only once *settled*: once a majority of the servers has logged the
//! transaction itself or a later one. After that, servers may purge it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zklockbench_core::txn::{HEADER, begins};

use super::transactions::{Transaction, next};

/// Maximum lag of a file's modification time behind the clock.
const TIMES_LAG: Duration = Duration::from_secs(2);
/// Bytes per read. A transaction is no larger than a request, which may slightly exceed 1 MiB.
const CHUNK: usize = 1 << 20;
const LARGEST: usize = 4 * CHUNK;

#[derive(Debug)]
pub struct LogFollower {
    below: String,
    since: SystemTime,
    servers: Vec<Server>,
    /// Transactions that are not settled yet, each with a bit set of the servers that have logged it.
    waiting: BTreeMap<i64, (Transaction, u64)>,
    passed: Option<i64>,
    /// Number of transactions that are missing from all logs, although later ones of the same leader exist.
    missing: u64,
}

#[derive(Debug)]
struct Server {
    directory: PathBuf,
    /// Start of the followed period, in ms since 1970; `None` once reached. Older transactions are skipped,
    /// because the servers' logs start at different times.
    begins_at_ms: Option<i64>,
    /// Logs by their first zxid, as in the file name.
    logs: BTreeMap<i64, OpenLog>,
}

#[derive(Debug, Default)]
struct OpenLog {
    at: u64,
    /// Whether the log was read to its end and a newer log exists.
    is_over: bool,
}

impl LogFollower {
    /// Follows changes below `below`, a path that ends with a slash and did not exist before `since`. Logs
    /// last written before `since` are skipped, so a long run does not reread old logs.
    pub fn new(below: &str, since: SystemTime) -> Self {
        let (servers, waiting) = (Vec::new(), BTreeMap::new());
        Self { below: below.to_owned(), since, servers, waiting, passed: None, missing: 0 }
    }

    /// Reads everything written to the servers' data directories since the last call, and passes settled
    /// transactions on. `directories` must be the same in each call.
    pub fn read(
        &mut self,
        directories: &[PathBuf],
        pass: &mut dyn FnMut(&Transaction) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.servers.is_empty() {
            let since =
                self.since.checked_sub(TIMES_LAG).and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let begins_at_ms = since.and_then(|since| i64::try_from(since.as_millis()).ok());
            let server = |directory: &PathBuf| Server {
                directory: directory.clone(),
                begins_at_ms,
                logs: BTreeMap::new(),
            };
            self.servers = directories.iter().map(server).collect();
        }
        for place in 0..self.servers.len() {
            if self.servers[place].poll(self.since)? {
                let bit = 1 << place;
                self.waiting.values_mut().for_each(|(_, servers)| *servers &= !bit);
                self.waiting.retain(|_, (_, servers)| *servers != 0);
            }
        }
        // Alternate between the servers, so that transactions are settled soon and few are kept in memory.
        let mut bytes = vec![0; CHUNK];
        loop {
            let mut any = false;
            for place in 0..self.servers.len() {
                let passed = self.passed.unwrap_or(i64::MIN);
                let (waiting, below) = (&mut self.waiting, self.below.as_str());
                any |= self.servers[place].read(&mut bytes, below, &mut |transaction| {
                    if transaction.zxid > passed {
                        waiting.entry(transaction.zxid).or_insert((transaction, 0)).1 |= 1 << place;
                    }
                })?;
            }
            self.pass_settled(pass)?;
            if !any {
                return Ok(());
            }
        }
    }

    /// Passes on the remaining unsettled transactions. Returns the number of missing transactions.
    pub fn end(mut self, pass: &mut dyn FnMut(&Transaction) -> io::Result<()>) -> io::Result<u64> {
        while let Some((_, (transaction, _))) = self.waiting.pop_first() {
            self.pass(&transaction, pass)?;
        }
        Ok(self.missing)
    }

    fn pass_settled(&mut self, pass: &mut dyn FnMut(&Transaction) -> io::Result<()>) -> io::Result<()> {
        let majority = self.servers.len() as u32 / 2 + 1;
        let mut newest_first = self.waiting.iter().rev();
        let newest = newest_first.find(|(_, (_, servers))| servers.count_ones() >= majority);
        let Some((settled, servers)) = newest.map(|(zxid, (_, servers))| (*zxid, *servers)) else {
            return Ok(());
        };
        while let Some(first) = self.waiting.first_entry().filter(|first| *first.key() <= settled) {
            let (transaction, of) = first.remove();
            // An earlier leader's transaction that no server of the majority has logged was never accepted.
            if of & servers != 0 || epoch(transaction.zxid) == epoch(settled) {
                self.pass(&transaction, pass)?;
            }
        }
        Ok(())
    }

    fn pass(
        &mut self,
        transaction: &Transaction,
        pass: &mut dyn FnMut(&Transaction) -> io::Result<()>,
    ) -> io::Result<()> {
        let zxid = transaction.zxid;
        // A leader numbers its transactions without gaps.
        if let Some(before) = self.passed.replace(zxid).filter(|before| epoch(*before) == epoch(zxid)) {
            self.missing += u64::try_from(zxid - before - 1).unwrap_or(0);
        }
        if transaction.changes.is_empty() && !transaction.ends_session { Ok(()) } else { pass(transaction) }
    }
}

fn epoch(zxid: i64) -> i64 {
    zxid >> 32
}

impl Server {
    /// Lists the logs. Returns whether the server has discarded transactions, in which case all its logs are
    /// read again.
    fn poll(&mut self, since: SystemTime) -> io::Result<bool> {
        let found = logs(&self.directory)?;
        let oldest = found.keys().next().copied();
        // Servers purge their oldest logs, but discard transactions from the end of their newest log.
        let cut = self.logs.iter().any(|(first, log)| match found.get(first) {
            Some((length, _)) => *length < log.at,
            None => log.at > 0 && oldest.is_some_and(|oldest| oldest < *first),
        });
        self.logs.retain(|first, _| found.contains_key(first));
        if cut {
            self.logs.values_mut().for_each(|log| *log = OpenLog::default());
        }
        for (first, _) in found.into_iter().filter(|(_, (_, written))| *written + TIMES_LAG >= since) {
            self.logs.entry(first).or_default();
        }
        Ok(cut)
    }

    /// Reads the next chunk. Returns whether there was one.
    fn read(
        &mut self,
        bytes: &mut Vec<u8>,
        below: &str,
        note: &mut dyn FnMut(Transaction),
    ) -> io::Result<bool> {
        let newest = self.logs.keys().next_back().copied();
        let begins_at_ms = &mut self.begins_at_ms;
        let mut note = |transaction: Transaction| {
            // After the first match, include every transaction, even if the clock is set back.
            if begins_at_ms.is_none_or(|begin| transaction.at_ms >= begin) {
                *begins_at_ms = None;
                note(transaction);
            }
        };
        for (first, log) in self.logs.iter_mut().filter(|(_, log)| !log.is_over) {
            let path = self.directory.join(VERSION).join(format!("{LOG}{first:x}"));
            let read = match log.read(&path, bytes, below, &mut note) {
                // The log was just purged.
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                read => read?,
            };
            if read > 0 {
                return Ok(true);
            }
            log.is_over = Some(*first) != newest;
        }
        Ok(false)
    }
}

impl OpenLog {
    fn read(
        &mut self,
        path: &Path,
        bytes: &mut Vec<u8>,
        below: &str,
        note: &mut dyn FnMut(Transaction),
    ) -> io::Result<usize> {
        let file = File::open(path)?;
        let no_log = |what| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()));
        loop {
            let read = read_at(&file, bytes, self.at)?;
            let chunk = &bytes[..read];
            let mut taken = 0;
            if self.at == 0 {
                if begins(chunk).map_err(no_log)?.is_none() {
                    return Ok(0);
                }
                taken = HEADER;
            }
            while let Some((transaction, length)) = next(&chunk[taken..], below) {
                note(transaction);
                taken += length;
            }
            self.at += taken as u64;
            // If a full chunk has no complete transaction, read a larger chunk, unless zeros mark the end.
            let is_cut = taken == 0 && read == bytes.len() && chunk.iter().take(12).any(|byte| *byte != 0);
            if !is_cut || bytes.len() >= LARGEST {
                return Ok(taken);
            }
            bytes.resize(2 * bytes.len(), 0);
        }
    }
}

fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], at + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

const VERSION: &str = "version-2";
const LOG: &str = "log.";

/// Returns the logs in a server's data directory by first zxid, with length and modification time.
fn logs(directory: &Path) -> io::Result<BTreeMap<i64, (u64, SystemTime)>> {
    let mut logs = BTreeMap::new();
    let entries = match fs::read_dir(directory.join(VERSION)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(logs),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let first = name.to_str().and_then(|name| i64::from_str_radix(name.strip_prefix(LOG)?, 16).ok());
        match (first, entry.metadata()) {
            (None, _) => {}
            (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
            (Some(first), found) => {
                let found = found?;
                logs.insert(first, (found.len(), found.modified()?));
            }
        }
    }
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::super::transactions::written::{BEGIN, record, text};
    use super::*;

    /// Data directories of an ensemble's servers, and the follower of their logs.
    struct Followed {
        place: tempfile::TempDir,
        follower: LogFollower,
        servers: usize,
        passed: Vec<i64>,
    }

    impl Followed {
        fn by(servers: usize) -> Self {
            Self::since(servers, SystemTime::UNIX_EPOCH)
        }

        fn since(servers: usize, since: SystemTime) -> Self {
            let place = tempfile::tempdir().unwrap();
            (0..servers).for_each(|server| {
                fs::create_dir_all(place.path().join(format!("{server}/{VERSION}"))).unwrap()
            });
            let follower = LogFollower::new("/l/", since);
            Self { place, follower, servers, passed: Vec::new() }
        }

        fn log(&self, server: usize, first: i64) -> PathBuf {
            self.place.path().join(format!("{server}/{VERSION}/{LOG}{first:x}"))
        }

        fn write(&self, server: usize, first: i64, bytes: &[u8]) {
            let log = self.log(server, first);
            let begin = if log.exists() { &[][..] } else { BEGIN };
            let mut log = OpenOptions::new().create(true).append(true).open(log).unwrap();
            log.write_all(&[begin, bytes].concat()).unwrap();
        }

        fn read(&mut self) -> &[i64] {
            let directories: Vec<PathBuf> =
                (0..self.servers).map(|server| self.place.path().join(server.to_string())).collect();
            let Self { follower, passed, .. } = self;
            follower.read(&directories, &mut note(passed)).unwrap();
            passed
        }

        fn end(mut self) -> (Vec<i64>, u64) {
            self.read();
            let Self { follower, mut passed, .. } = self;
            let missing = follower.end(&mut note(&mut passed)).unwrap();
            (passed, missing)
        }
    }

    fn note(passed: &mut Vec<i64>) -> impl FnMut(&Transaction) -> io::Result<()> {
        |one| {
            passed.push(one.zxid);
            Ok(())
        }
    }

    fn create(zxid: i64) -> Vec<u8> {
        record(zxid, 1, &text("/l/a"))
    }

    fn creates(zxids: impl IntoIterator<Item = i64>) -> Vec<u8> {
        zxids.into_iter().flat_map(create).collect()
    }

    #[test]
    fn transactions_are_passed_on_once_a_majority_has_logged_them() {
        let mut followed = Followed::by(3);
        followed.write(0, 1, &creates(1..=3));
        assert!(followed.read().is_empty(), "only one of three servers has them");
        followed.write(2, 1, &creates(1..=2));
        assert_eq!(followed.read(), [1, 2]);
        assert_eq!(followed.end(), (vec![1, 2, 3], 0));
    }

    #[test]
    fn logs_can_be_purged_after_they_are_read() {
        let mut followed = Followed::by(1);
        followed.write(0, 1, &creates(1..=3));
        followed.write(0, 4, &creates(4..=5));
        assert_eq!(followed.read(), [1, 2, 3, 4, 5]);
        fs::remove_file(followed.log(0, 1)).unwrap();
        followed.write(0, 6, &creates(6..=6));
        assert_eq!(followed.end(), (vec![1, 2, 3, 4, 5, 6], 0));
    }

    #[test]
    fn transactions_purged_before_they_are_read_count_as_missing() {
        let mut followed = Followed::by(1);
        followed.write(0, 1, &creates(1..=3));
        assert_eq!(followed.read(), [1, 2, 3]);
        followed.write(0, 8, &creates(8..=9));
        assert_eq!(followed.end(), (vec![1, 2, 3, 8, 9], 4));
    }

    #[test]
    fn transactions_before_the_start_are_skipped_in_every_log() {
        // Given three servers, one of which has a log that starts much earlier than the others
        let began = |zxid: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(1_000 + zxid) + TIMES_LAG;
        let followed = Followed::since(3, began(35_000));
        followed.write(0, 1, &creates(1..=40_000));
        (1..3).for_each(|server| followed.write(server, 30_001, &creates(30_001..=40_000)));
        // Then every log is read from the start time, and no transaction is missing
        assert_eq!(followed.end(), ((35_000..=40_000).collect(), 0));
    }

    #[test]
    fn transactions_of_a_deposed_leader_are_not_passed_on() {
        let next_epoch = |number: i64| (1 << 32) + number;
        for throws_away in [true, false] {
            let mut followed = Followed::by(3);
            // Given a leader that was cut off after the second transaction but continued to write
            (0..3).for_each(|server| followed.write(server, 1, &creates(1..=2)));
            followed.write(0, 1, &creates(3..=4));
            assert_eq!(followed.read(), [1, 2]);
            // When the other servers elect a new leader, which the old leader follows or cannot reach
            let fresh = creates((1..=2).map(next_epoch));
            (1..3).for_each(|server| followed.write(server, next_epoch(1), &fresh));
            if throws_away {
                let cut = OpenOptions::new().write(true).open(followed.log(0, 1)).unwrap();
                cut.set_len((BEGIN.len() + creates(1..=2).len()) as u64).unwrap();
                followed.write(0, next_epoch(1), &fresh);
            }
            // Then the old leader's unaccepted transactions are not passed on
            assert_eq!(followed.end(), (vec![1, 2, next_epoch(1), next_epoch(2)], 0));
        }
    }

    #[test]
    fn discarded_transactions_are_not_passed_on() {
        let mut followed = Followed::by(3);
        (0..3).for_each(|server| followed.write(server, 1, &creates(1..=2)));
        followed.write(0, 3, &creates(3..=4));
        assert_eq!(followed.read(), [1, 2]);
        fs::remove_file(followed.log(0, 3)).unwrap();
        assert_eq!(followed.end(), (vec![1, 2], 0));
    }

    #[test]
    fn file_that_is_not_a_transaction_log_is_an_error() {
        let mut followed = Followed::by(1);
        fs::write(followed.log(0, 1), b"no transactions at all").unwrap();
        let directories = [followed.place.path().join("0")];
        let error = followed.follower.read(&directories, &mut |_| Ok(())).unwrap_err();
        assert!(error.to_string().ends_with("log.1: not a ZooKeeper transaction log"), "{error}");
    }

    #[test]
    fn transaction_larger_than_a_chunk_is_read() {
        let mut followed = Followed::by(1);
        let large = record(2, 1, &[text("/l/b"), text(&"x".repeat(CHUNK + 5))].concat());
        followed.write(0, 1, &[create(1), large, create(3)].concat());
        assert_eq!(followed.read(), [1, 2, 3]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn each_transaction_is_passed_on_once_and_in_order(
            steps in prop::collection::vec((0..3_usize, 1..400_usize, any::<bool>()), 1..40),
        ) {
            let mut followed = Followed::by(3);
            let all: Vec<Vec<u8>> = (1..=60).map(create).collect();
            let whole = all.concat();
            // Number of bytes that each server has written, and the server's current log.
            let mut written = [(0, 1_i64); 3];
            for (server, bytes, rolls) in steps {
                let (at, log) = &mut written[server];
                let to = (*at + bytes).min(whole.len());
                followed.write(server, *log, &whole[*at..to]);
                *at = to;
                let records = to / all[0].len();
                if rolls && to % all[0].len() == 0 && to < whole.len() {
                    *log = records as i64 + 1;
                }
                followed.read();
            }
            let most = written.iter().map(|(at, _)| at / all[0].len()).max().unwrap();
            prop_assert_eq!(followed.end(), ((1..=most as i64).collect::<Vec<_>>(), 0));
        }
    }
}
