use std::fmt;

use crate::error::Error;
use crate::record::{self, DeserializableRecord, ReadingBuf, UnmarshalError};

/// Names of a node's children, left as they came in the bytes of the reply, from which they are read one after the other.
///
/// A long list takes about a quarter of the memory of a `Vec<String>` this way, and one allocation in place of one for
/// each name.
#[derive(Clone, Default)]
pub struct Names {
    /// Their number, and then the length and the bytes of each; what comes after that is ignored.
    bytes: Vec<u8>,
    len: usize,
}

const NUMBER_LEN: usize = 4;

impl Names {
    /// Reads the names off the beginning of a reply. Returns also where they end in it.
    pub(crate) fn unmarshal(bytes: Vec<u8>) -> Result<(Self, usize), Error> {
        let mut reading = bytes.as_slice();
        let len = record::unmarshal_entity::<i32>(&"children paths", &mut reading)?.max(0) as usize;
        for _ in 0..len {
            <&str>::deserialize(&mut reading).map_err(|err| err.with_context("children paths"))?;
        }
        let end = bytes.len() - reading.len();
        Ok((Self { bytes, len }, end))
    }

    pub(crate) fn bytes_from(&self, position: usize) -> ReadingBuf<'_> {
        &self.bytes[position..]
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn iter(&self) -> NamesIter<'_> {
        NamesIter { rest: self.bytes.get(NUMBER_LEN..).unwrap_or_default(), left: self.len }
    }

    pub fn to_vec(&self) -> Vec<String> {
        self.iter().map(str::to_owned).collect()
    }
}

/// The names one after the other, in the order of the reply.
#[derive(Clone, Debug)]
pub struct NamesIter<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for NamesIter<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.left = self.left.checked_sub(1)?;
        let (length, rest) = self.rest.split_at(NUMBER_LEN);
        let length = i32::from_be_bytes(length.try_into().unwrap()).max(0) as usize;
        let (name, rest) = rest.split_at(length);
        self.rest = rest;
        // Safety: they have been checked in `Names::unmarshal`, or were strings in `Names::from_iter`.
        Some(unsafe { std::str::from_utf8_unchecked(name) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for NamesIter<'_> {}

impl<'a> IntoIterator for &'a Names {
    type IntoIter = NamesIter<'a>;
    type Item = &'a str;

    fn into_iter(self) -> NamesIter<'a> {
        self.iter()
    }
}

impl<S: AsRef<str>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut bytes = vec![0; NUMBER_LEN];
        let mut len = 0;
        for name in names {
            let name = name.as_ref();
            bytes.extend_from_slice(&(name.len() as i32).to_be_bytes());
            bytes.extend_from_slice(name.as_bytes());
            len += 1;
        }
        bytes[..NUMBER_LEN].copy_from_slice(&(len as i32).to_be_bytes());
        Self { bytes, len }
    }
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Names {}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_written_and_what_follows_is_left() {
        let written = Names::from_iter(["a", "", "caf\u{e9}"]);
        let mut reply = written.bytes.clone();
        reply.extend_from_slice(b"stat");
        let (read, end) = Names::unmarshal(reply).unwrap();
        assert_eq!(read.to_vec(), ["a", "", "caf\u{e9}"]);
        assert_eq!((read.len(), read.bytes_from(end)), (3, b"stat".as_slice()));
        assert_eq!(read, written);
    }

    #[test]
    fn a_list_that_ends_early_or_is_no_text_is_refused() {
        assert!(Names::unmarshal(vec![0, 0, 0]).is_err());
        assert!(Names::unmarshal(vec![0, 0, 0, 2, 0, 0, 0, 1, b'a']).is_err());
        assert!(Names::unmarshal(vec![0, 0, 0, 1, 0, 0, 0, 1, 0xff]).is_err());
        // None, and the -1 by which jute writes no list at all
        assert!(Names::unmarshal(vec![0, 0, 0, 0]).unwrap().0.is_empty());
        assert!(Names::unmarshal(vec![0xff; 4]).unwrap().0.is_empty());
    }
}
