//! Follows the transaction logs of an ensemble's servers while they are written, in the order of the transactions.
//!
//! Each server may lack what came before it was wiped, or after it was stopped, and a leader that was cut off has written
//! what the others never accepted, and throws it away when it is back. So a transaction is passed on once it is *settled*: a
//! majority of the servers has it, or has one that is built on it. What was passed on is forgotten here, and may be purged
//! by its servers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::transactions::{HEADER, Transaction, begins, next};

/// By how much a file's time may lag behind the clock.
const TIMES_LAG: Duration = Duration::from_secs(2);
/// How much is read at a time. A transaction has at most as much as a request, which is 1 MiB and something.
const CHUNK: usize = 1 << 20;
const LARGEST: usize = 4 * CHUNK;

#[derive(Debug)]
pub struct LogFollower {
    below: String,
    since: SystemTime,
    servers: Vec<Server>,
    /// What was read and is not settled, with the servers that have it, one bit each.
    waiting: BTreeMap<i64, (Transaction, u64)>,
    passed: Option<i64>,
    /// How many transactions are in no log of any server although later ones of the same leader are.
    missing: u64,
}

#[derive(Debug)]
struct Server {
    directory: PathBuf,
    /// What it wrote before that time, in milliseconds since 1970, is passed over, up to the first transaction that is not
    /// older. Each server's log reaches back as far as it happens to: of what was before, one may have what others lack.
    begins_at_ms: Option<i64>,
    /// By the first transaction of each, as its name says.
    logs: BTreeMap<i64, OpenLog>,
}

#[derive(Debug, Default)]
struct OpenLog {
    at: u64,
    /// There is a newer one, and all of this one was read.
    is_over: bool,
}

impl LogFollower {
    /// Follows what happens below that path, which ends with a slash and was not there before. Logs that have not been
    /// written to since are left out, so that a long run does not read all that came before again and again.
    pub fn new(below: &str, since: SystemTime) -> Self {
        let (servers, waiting) = (Vec::new(), BTreeMap::new());
        Self { below: below.to_owned(), since, servers, waiting, passed: None, missing: 0 }
    }

    /// Reads what was written since the last time below each server's data directory, always the same ones, and passes on
    /// what is settled.
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
            if self.servers[place].look(self.since)? {
                let bit = 1 << place;
                self.waiting.values_mut().for_each(|(_, servers)| *servers &= !bit);
                self.waiting.retain(|_, (_, servers)| *servers != 0);
            }
        }
        // By turns, so that little waits for the others.
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

    /// Passes on what is left, of which no more is known: it is in some server's log. Returns how many are missing.
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
            // What none of them has under a later leader was never accepted.
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
        // A leader counts its transactions without a gap.
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
    /// Sees which logs there are. Says whether the server has thrown away what it had written before, so that all of it has
    /// to be read again.
    fn look(&mut self, since: SystemTime) -> io::Result<bool> {
        let found = logs(&self.directory)?;
        let oldest = found.keys().next().copied();
        // Servers purge from the oldest on, and throw away from the newest on.
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

    /// Reads one chunk further; says whether there was anything.
    fn read(
        &mut self,
        bytes: &mut Vec<u8>,
        below: &str,
        note: &mut dyn FnMut(Transaction),
    ) -> io::Result<bool> {
        let newest = self.logs.keys().next_back().copied();
        let begins_at_ms = &mut self.begins_at_ms;
        let mut note = |transaction: Transaction| {
            // Later a clock may be set back, and all counts.
            if begins_at_ms.is_none_or(|begin| transaction.at_ms >= begin) {
                *begins_at_ms = None;
                note(transaction);
            }
        };
        for (first, log) in self.logs.iter_mut().filter(|(_, log)| !log.is_over) {
            let path = self.directory.join(VERSION).join(format!("{LOG}{first:x}"));
            let read = match log.read(&path, bytes, below, &mut note) {
                // Purged in this moment.
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
            // One that is larger than a chunk; or the end, which is zeroes.
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

/// The logs below a server's data directory by their first transactions: how long each is, and when it was written to.
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

    /// The servers of an ensemble, and who follows their logs.
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
    fn a_transaction_is_passed_on_when_a_majority_has_it_and_at_the_end_in_any_case() {
        let mut followed = Followed::by(3);
        followed.write(0, 1, &creates(1..=3));
        assert!(followed.read().is_empty(), "one of three servers has them");
        followed.write(2, 1, &creates(1..=2));
        assert_eq!(followed.read(), [1, 2]);
        assert_eq!(followed.end(), (vec![1, 2, 3], 0));
    }

    #[test]
    fn what_was_read_may_be_purged() {
        let mut followed = Followed::by(1);
        followed.write(0, 1, &creates(1..=3));
        followed.write(0, 4, &creates(4..=5));
        assert_eq!(followed.read(), [1, 2, 3, 4, 5]);
        fs::remove_file(followed.log(0, 1)).unwrap();
        followed.write(0, 6, &creates(6..=6));
        assert_eq!(followed.end(), (vec![1, 2, 3, 4, 5, 6], 0));
    }

    #[test]
    fn what_was_purged_before_it_was_read_is_counted() {
        let mut followed = Followed::by(1);
        followed.write(0, 1, &creates(1..=3));
        assert_eq!(followed.read(), [1, 2, 3]);
        followed.write(0, 8, &creates(8..=9));
        assert_eq!(followed.end(), (vec![1, 2, 3, 8, 9], 4));
    }

    #[test]
    fn what_was_written_before_is_passed_over_however_far_back_the_log_of_a_server_reaches() {
        // Given servers that have been up for long: the log of one begins much earlier than those of the others
        let began = |zxid: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(1_000 + zxid) + TIMES_LAG;
        let followed = Followed::since(3, began(35_000));
        followed.write(0, 1, &creates(1..=40_000));
        (1..3).for_each(|server| followed.write(server, 30_001, &creates(30_001..=40_000)));
        // Then what is followed begins with the time in question, and nothing of that is missing
        assert_eq!(followed.end(), ((35_000..=40_000).collect(), 0));
    }

    #[test]
    fn what_a_leader_wrote_alone_is_not_passed_on_when_the_others_have_gone_on_without_it() {
        let next_epoch = |number: i64| (1 << 32) + number;
        for throws_away in [true, false] {
            let mut followed = Followed::by(3);
            // Given a leader that was cut off after the second transaction, and went on writing
            (0..3).for_each(|server| followed.write(server, 1, &creates(1..=2)));
            followed.write(0, 1, &creates(3..=4));
            assert_eq!(followed.read(), [1, 2]);
            // When the others have another, which it follows again, or is still cut off from
            let fresh = creates((1..=2).map(next_epoch));
            (1..3).for_each(|server| followed.write(server, next_epoch(1), &fresh));
            if throws_away {
                let cut = OpenOptions::new().write(true).open(followed.log(0, 1)).unwrap();
                cut.set_len((BEGIN.len() + creates(1..=2).len()) as u64).unwrap();
                followed.write(0, next_epoch(1), &fresh);
            }
            // Then what it wrote meanwhile has never been
            assert_eq!(followed.end(), (vec![1, 2, next_epoch(1), next_epoch(2)], 0));
        }
    }

    #[test]
    fn what_a_leader_wrote_last_and_threw_away_before_anything_followed_is_not_passed_on() {
        let mut followed = Followed::by(3);
        (0..3).for_each(|server| followed.write(server, 1, &creates(1..=2)));
        followed.write(0, 3, &creates(3..=4));
        assert_eq!(followed.read(), [1, 2]);
        fs::remove_file(followed.log(0, 3)).unwrap();
        assert_eq!(followed.end(), (vec![1, 2], 0));
    }

    #[test]
    fn a_file_that_is_no_log_is_told() {
        let mut followed = Followed::by(1);
        fs::write(followed.log(0, 1), b"no transactions at all").unwrap();
        let directories = [followed.place.path().join("0")];
        let error = followed.follower.read(&directories, &mut |_| Ok(())).unwrap_err();
        assert!(error.to_string().ends_with("log.1: no transaction log of ZooKeeper"), "{error}");
    }

    #[test]
    fn one_that_is_larger_than_a_chunk_is_read_all_the_same() {
        let mut followed = Followed::by(1);
        let large = record(2, 1, &[text("/l/b"), text(&"x".repeat(CHUNK + 5))].concat());
        followed.write(0, 1, &[create(1), large, create(3)].concat());
        assert_eq!(followed.read(), [1, 2, 3]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn however_servers_write_and_roll_their_logs_each_transaction_is_passed_on_once_and_in_order(
            steps in prop::collection::vec((0..3_usize, 1..400_usize, any::<bool>()), 1..40),
        ) {
            let mut followed = Followed::by(3);
            let all: Vec<Vec<u8>> = (1..=60).map(create).collect();
            let whole = all.concat();
            // How far each server has come, in bytes, and the log that it writes.
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
