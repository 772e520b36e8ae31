//! ZooKeeper's serialisation, as far as it is read here: one field after the other, big-endian, texts and buffers
//! preceded by their length (`org.apache.zookeeper.common`, Jute's `BinaryInputArchive`).

/// Reads fields off the beginning of what is left. Every field is `None` when too little is left for it.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub fn int(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(*self.bytes(4)?.first_chunk()?))
    }

    pub fn long(&mut self) -> Option<i64> {
        Some(i64::from_be_bytes(*self.bytes(8)?.first_chunk()?))
    }

    pub fn bool(&mut self) -> Option<bool> {
        Some(self.bytes(1)? != [0])
    }

    /// Bytes preceded by their number. One that is negative stands for no buffer, and is `None`, too.
    pub fn buffer(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.int()?).ok()?;
        self.bytes(length)
    }

    /// A text in UTF-8; what is none is replaced.
    pub fn string(&mut self) -> Option<String> {
        self.buffer().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_one_after_the_other_until_too_little_is_left() {
        let written =
            [&(-2_i32).to_be_bytes()[..], &7_i64.to_be_bytes(), &[1], &[0, 0, 0, 2], b"ab", &[0; 3]].concat();
        let mut reader = Reader(&written);
        assert_eq!((reader.int(), reader.long(), reader.bool()), (Some(-2), Some(7), Some(true)));
        assert_eq!((reader.string().as_deref(), reader.int()), (Some("ab"), None));
    }

    #[test]
    fn a_buffer_without_a_length_or_longer_than_what_is_left_is_none() {
        assert_eq!(Reader(&(-1_i32).to_be_bytes()).buffer(), None);
        assert_eq!(Reader(&[0, 0, 0, 9, 1]).buffer(), None);
    }
}
