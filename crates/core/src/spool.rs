//! External sorting of records that may not fit into memory. Small sets stay in memory; larger ones go to
//! unnamed files.
//!
//! Records arrive one by one. Every [`RUN`] records are sorted and written as a *run*, and the runs are
//! merged while reading. The files have no names, so they disappear even if the process is killed. The sort is
//! stable: records with the same key keep their order of arrival.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::locked::locked;

/// Number of records sorted at once in memory. Small in this crate's tests, so that the tests use the disk.
pub const RUN: usize = if cfg!(test) { 8 } else { 16_384 };
/// Number of runs merged into a longer run.
const RUNS: usize = 64;
/// Approximate size of a block in bytes. Blocks are read as a whole.
const BLOCK: usize = 32 * 1024;

pub trait Record: Serialize + DeserializeOwned + Clone {}
impl<T: Serialize + DeserializeOwned + Clone> Record for T {}

#[derive(Debug)]
pub struct Sorter<T, K> {
    directory: PathBuf,
    key: fn(&T) -> K,
    fresh: Vec<T>,
    /// Runs on disk. Every level after the first contains runs merged from the level before, so its runs are
    /// longer and older.
    levels: Vec<Level<T>>,
}

#[derive(Debug)]
struct Level<T> {
    file: Arc<File>,
    end: u64,
    runs: Vec<Vec<SpoolBlock<T>>>,
}

#[derive(Debug)]
struct SpoolBlock<T> {
    at: u64,
    bytes: usize,
    first: T,
}

impl<T: Record, K: Ord> Sorter<T, K> {
    /// Creates an empty sorter, which writes records that do not fit into memory to `directory`.
    pub fn by(key: fn(&T) -> K, directory: &Path) -> Self {
        Self { directory: directory.to_owned(), key, fresh: Vec::new(), levels: Vec::new() }
    }

    pub fn push(&mut self, record: T) -> io::Result<()> {
        self.fresh.push(record);
        if self.fresh.len() >= RUN { self.write_run() } else { Ok(()) }
    }

    fn write_run(&mut self) -> io::Result<()> {
        self.fresh.sort_by_key(self.key);
        let fresh = std::mem::take(&mut self.fresh);
        self.write(0, fresh.iter().cloned().map(Ok))?;
        // Reuse the allocation.
        self.fresh = fresh;
        self.fresh.clear();
        let mut level = 0;
        while self.levels.get(level).is_some_and(|level| level.runs.len() >= RUNS) {
            let full = Level::new(&self.directory)?;
            let full = std::mem::replace(&mut self.levels[level], full);
            let merged = Merge::of(self.key, full.cursors().collect())?;
            self.write(level + 1, merged)?;
            level += 1;
        }
        Ok(())
    }

    fn write(&mut self, level: usize, records: impl Iterator<Item = io::Result<T>>) -> io::Result<()> {
        while self.levels.len() <= level {
            self.levels.push(Level::new(&self.directory)?);
        }
        self.levels[level].append(records)
    }

    pub fn finish(mut self) -> Sorted<T, K> {
        self.fresh.sort_by_key(self.key);
        self.fresh.shrink_to_fit();
        let Self { key, fresh, levels, .. } = self;
        Sorted(Arc::new(Pieces { key, fresh, levels }))
    }
}

impl<T: Record> Level<T> {
    fn new(directory: &Path) -> io::Result<Self> {
        Ok(Self { file: Arc::new(tempfile::tempfile_in(directory)?), end: 0, runs: Vec::new() })
    }

    fn append(&mut self, records: impl Iterator<Item = io::Result<T>>) -> io::Result<()> {
        let mut run = Vec::new();
        let mut bytes = Vec::with_capacity(BLOCK + BLOCK / 4);
        let mut first = None;
        for record in records {
            let record = record?;
            bytes = postcard::to_extend(&record, bytes).map_err(io::Error::other)?;
            first.get_or_insert(record);
            if bytes.len() >= BLOCK {
                run.extend(self.block(&mut bytes, &mut first)?);
            }
        }
        run.extend(self.block(&mut bytes, &mut first)?);
        self.runs.push(run);
        Ok(())
    }

    fn block(&mut self, bytes: &mut Vec<u8>, first: &mut Option<T>) -> io::Result<Option<SpoolBlock<T>>> {
        let Some(first) = first.take() else { return Ok(None) };
        self.file.write_all_at(bytes, self.end)?;
        let block = SpoolBlock { at: self.end, bytes: bytes.len(), first };
        self.end += bytes.len() as u64;
        bytes.clear();
        Ok(Some(block))
    }

    fn cursors(&self) -> impl Iterator<Item = Cursor<'_, T>> {
        self.runs.iter().map(|run| Cursor::OnDisk {
            file: &self.file,
            blocks: run.iter(),
            read: Vec::new().into_iter(),
        })
    }
}

impl<T: Record> SpoolBlock<T> {
    fn read(&self, file: &File) -> io::Result<Vec<T>> {
        let mut bytes = vec![0; self.bytes];
        file.read_exact_at(&mut bytes, self.at)?;
        let (mut rest, mut records) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let (record, behind) = postcard::take_from_bytes(rest).map_err(io::Error::other)?;
            records.push(record);
            rest = behind;
        }
        Ok(records)
    }
}

/// Records in key order. Clones share their data.
pub struct Sorted<T, K>(Arc<Pieces<T, K>>);

struct Pieces<T, K> {
    key: fn(&T) -> K,
    fresh: Vec<T>,
    levels: Vec<Level<T>>,
}

impl<T: Record, K: Ord> Sorted<T, K> {
    pub fn of(key: fn(&T) -> K, mut records: Vec<T>) -> Self {
        records.sort_by_key(key);
        Self(Arc::new(Pieces { key, fresh: records, levels: Vec::new() }))
    }

    pub fn iter(&self) -> io::Result<Merge<'_, T, K>> {
        let pieces = &*self.0;
        let on_disk = pieces.levels.iter().rev().flat_map(Level::cursors);
        Merge::of(pieces.key, on_disk.chain([Cursor::InMemory(pieces.fresh.iter())]).collect())
    }
}

impl<T, K> Clone for Sorted<T, K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T, K> fmt::Debug for Sorted<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs: usize = self.0.levels.iter().map(|level| level.runs.len()).sum();
        write!(f, "Sorted({} in memory, {runs} runs on disk)", self.0.fresh.len())
    }
}

impl<T: Record + PartialEq, K: Ord> PartialEq for Sorted<T, K> {
    fn eq(&self, other: &Self) -> bool {
        let all = |sorted: &Self| sorted.iter().and_then(Iterator::collect::<io::Result<Vec<T>>>).ok();
        Arc::ptr_eq(&self.0, &other.0) || all(self) == all(other)
    }
}

enum Cursor<'a, T> {
    InMemory(std::slice::Iter<'a, T>),
    OnDisk { file: &'a File, blocks: std::slice::Iter<'a, SpoolBlock<T>>, read: std::vec::IntoIter<T> },
}

impl<T: Record> Cursor<'_, T> {
    fn next(&mut self) -> io::Result<Option<T>> {
        match self {
            Self::InMemory(records) => Ok(records.next().cloned()),
            Self::OnDisk { file, blocks, read } => {
                if let Some(record) = read.next() {
                    return Ok(Some(record));
                }
                let Some(block) = blocks.next() else { return Ok(None) };
                *read = block.read(file)?.into_iter();
                Ok(read.next())
            }
        }
    }
}

pub struct Merge<'a, T, K> {
    key: fn(&T) -> K,
    cursors: Vec<Cursor<'a, T>>,
    /// Next record of each run, if any.
    next: Vec<Option<T>>,
    /// Key and run of each next record. Among equal keys, the older run comes first.
    heads: BinaryHeap<Reverse<(K, usize)>>,
}

impl<'a, T: Record, K: Ord> Merge<'a, T, K> {
    fn of(key: fn(&T) -> K, mut cursors: Vec<Cursor<'a, T>>) -> io::Result<Self> {
        let next: Vec<Option<T>> = cursors.iter_mut().map(Cursor::next).collect::<io::Result<_>>()?;
        let heads = next.iter().zip(0..);
        let heads = heads.filter_map(|(record, run)| Some(Reverse((key(record.as_ref()?), run)))).collect();
        Ok(Self { key, cursors, next, heads })
    }
}

impl<T: Record, K: Ord> Iterator for Merge<'_, T, K> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut head = self.heads.peek_mut()?;
        let run = head.0.1;
        match self.cursors[run].next() {
            Err(error) => Some(Err(error)),
            Ok(following) => {
                match &following {
                    Some(next) => head.0.0 = (self.key)(next),
                    None => drop(PeekMut::pop(head)),
                }
                std::mem::replace(&mut self.next[run], following).map(Ok)
            }
        }
    }
}

/// Values by number, for random access. Lookups of nearby numbers are cheap.
#[derive(Clone)]
pub struct SpooledTable<V>(Arc<Mutex<Lookup<V>>>);

struct Lookup<V> {
    file: Option<Arc<File>>,
    blocks: Vec<SpoolBlock<(i64, V)>>,
    /// Recently read blocks, most recent last.
    read: Vec<(usize, Vec<(i64, V)>)>,
}

const BLOCKS_KEPT: usize = 64;

impl<V: Record> SpooledTable<V> {
    /// Builds the table. If several values have the same number, the first wins.
    pub fn of(sorted: &Sorted<(i64, V), i64>, directory: &Path) -> io::Result<Self> {
        if sorted.0.levels.is_empty() {
            return Ok(Self::in_memory(sorted.0.fresh.clone()));
        }
        let mut level = Level::new(directory)?;
        level.append(sorted.iter()?)?;
        let blocks = level.runs.pop().unwrap_or_default();
        Ok(Self(Arc::new(Mutex::new(Lookup { file: Some(level.file), blocks, read: Vec::new() }))))
    }

    fn in_memory(sorted: Vec<(i64, V)>) -> Self {
        let blocks = sorted.first().cloned().map(|first| SpoolBlock { at: 0, bytes: 0, first });
        let lookup = Lookup { file: None, blocks: blocks.into_iter().collect(), read: vec![(0, sorted)] };
        Self(Arc::new(Mutex::new(lookup)))
    }

    pub fn is_empty(&self) -> bool {
        locked(&self.0).blocks.is_empty()
    }

    pub fn get(&self, number: i64) -> io::Result<Option<V>> {
        let mut lookup = locked(&self.0);
        let behind = lookup.blocks.partition_point(|block| block.first.0 < number);
        // The first record with this number is in the block before `behind`, or at the start of block
        // `behind`.
        for place in [behind.checked_sub(1), Some(behind)].into_iter().flatten() {
            if place < lookup.blocks.len()
                && let records = lookup.block(place)?
                && let Some(found) = records.get(records.partition_point(|(other, _)| *other < number))
                && found.0 == number
            {
                return Ok(Some(found.1.clone()));
            }
        }
        Ok(None)
    }
}

impl<V: Record> Lookup<V> {
    fn block(&mut self, place: usize) -> io::Result<&[(i64, V)]> {
        let known = self.read.iter().position(|(of, _)| *of == place);
        match (known, &self.file) {
            (Some(known), _) if known + 1 == self.read.len() => {}
            (Some(known), _) => {
                let block = self.read.remove(known);
                self.read.push(block);
            }
            (None, Some(file)) => {
                let records = self.blocks[place].read(file)?;
                if self.read.len() >= BLOCKS_KEPT {
                    self.read.remove(0);
                }
                self.read.push((place, records));
            }
            (None, None) => return Ok(&[]),
        }
        Ok(self.read.last().map_or(&[], |(_, records)| records))
    }
}

impl<V: Record> Default for SpooledTable<V> {
    fn default() -> Self {
        Self::in_memory(Vec::new())
    }
}

impl<V: Record, const N: usize> From<[(i64, V); N]> for SpooledTable<V> {
    fn from(values: [(i64, V); N]) -> Self {
        values.into_iter().collect()
    }
}

impl<V: Record> FromIterator<(i64, V)> for SpooledTable<V> {
    fn from_iter<I: IntoIterator<Item = (i64, V)>>(values: I) -> Self {
        let mut sorted: Vec<(i64, V)> = values.into_iter().collect();
        sorted.sort_by_key(|(number, _)| *number);
        Self::in_memory(sorted)
    }
}

impl<V> fmt::Debug for SpooledTable<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lookup = locked(&self.0);
        write!(f, "Table({} blocks)", lookup.blocks.len())
    }
}

impl<V> PartialEq for SpooledTable<V> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sorting_on_disk_gives_the_same_order_as_sorting_in_memory(
            numbers in prop::collection::vec(0..50_i64, 0..1_500),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let numbered: Vec<(i64, usize)> = numbers.iter().copied().zip(0..).collect();
            let mut sorter = Sorter::by(|(number, _): &(i64, usize)| *number, directory.path());
            for record in &numbered {
                sorter.push(*record).unwrap();
            }
            let sorted = sorter.finish();
            prop_assert_eq!(&sorted, &Sorted::of(|(number, _)| *number, numbered.clone()));
            // A lookup finds the first record of each number
            let table = SpooledTable::of(&sorted, directory.path()).unwrap();
            for number in -1..51 {
                let first = numbered.iter().find(|(other, _)| *other == number).map(|(_, place)| *place);
                prop_assert_eq!(table.get(number).unwrap(), first);
            }
            prop_assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "files have no names");
        }
    }

    #[test]
    fn lookups_find_values_in_a_table_of_many_blocks() {
        let directory = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::by(|(number, _): &(i64, String)| *number, directory.path());
        let count = 200_000;
        for number in (0..count).rev() {
            sorter.push((2 * number, format!("value {number:0100}"))).unwrap();
        }
        let table = SpooledTable::of(&sorter.finish(), directory.path()).unwrap();
        assert!(table.0.lock().unwrap().blocks.len() > BLOCKS_KEPT);
        for number in [0, 7, 100_000, 7, count - 1, 0] {
            assert_eq!(table.get(2 * number).unwrap(), Some(format!("value {number:0100}")));
            assert_eq!(table.get(2 * number + 1).unwrap(), None);
        }
    }
}
