//! The part of ZooKeeper's serialisation that the suite reads: consecutive big-endian fields; strings and
//! buffers are preceded by their length (Jute's `BinaryInputArchive`).

/// Reads fields from the start of the remaining bytes. Every method returns `None` if too few bytes remain.
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

    /// Bytes preceded by their length. A negative length stands for a null buffer and also gives `None`.
    pub fn buffer(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.int()?).ok()?;
        self.bytes(length)
    }

    /// A UTF-8 string; invalid sequences are replaced.
    pub fn string(&mut self) -> Option<String> {
        self.buffer().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_returns_fields_in_order_until_too_few_bytes_remain() {
        let written =
            [&(-2_i32).to_be_bytes()[..], &7_i64.to_be_bytes(), &[1], &[0, 0, 0, 2], b"ab", &[0; 3]].concat();
        let mut reader = Reader(&written);
        assert_eq!((reader.int(), reader.long(), reader.bool()), (Some(-2), Some(7), Some(true)));
        assert_eq!((reader.string().as_deref(), reader.int()), (Some("ab"), None));
    }

    #[test]
    fn buffer_is_none_if_null_or_longer_than_the_remaining_bytes() {
        assert_eq!(Reader(&(-1_i32).to_be_bytes()).buffer(), None);
        assert_eq!(Reader(&[0, 0, 0, 9, 1]).buffer(), None);
    }
}
