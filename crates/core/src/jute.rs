//! Reader for ZooKeeper's serialisation (Jute's `BinaryInputArchive`): consecutive big-endian fields. Strings
//! and buffers are preceded by their length.

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

    /// Reads bytes preceded by their length. Also returns `None` for a null buffer, which has a negative
    /// length.
    pub fn buffer(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.int()?).ok()?;
        self.bytes(length)
    }

    /// Reads a UTF-8 string; invalid sequences are replaced.
    pub fn string(&mut self) -> Option<String> {
        self.buffer().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Skips a buffer, which may be null.
    pub fn skip_buffer(&mut self) -> Option<()> {
        let length = self.int()?;
        self.bytes(usize::try_from(length).unwrap_or(0)).map(drop)
    }

    /// Skips the data and the ACLs of a create.
    pub fn skip_data_and_acls(&mut self) -> Option<()> {
        self.skip_buffer()?;
        for _ in 0..self.int()? {
            let _permissions = self.int()?;
            self.skip_buffer()?;
            self.skip_buffer()?;
        }
        Some(())
    }

    /// Reads the opcode of the next operation in a multi; `Some(None)` at the end of the multi.
    pub fn part(&mut self) -> Option<Option<i32>> {
        let (opcode, ends, _error) = (self.int()?, self.bool()?, self.int()?);
        Some((!ends).then_some(opcode))
    }

    /// Skips the fields that follow the path in an operation of a multi.
    pub fn skip_part(&mut self, opcode: i32) -> Option<()> {
        match opcode {
            1 | 15 | 19 | 21 => {
                self.skip_data_and_acls()?;
                let _flags = self.int()?;
                if opcode == 21 {
                    let _ttl = self.long()?;
                }
            }
            2 | 13 => drop(self.int()?),
            5 => {
                self.skip_buffer()?;
                let _version = self.int()?;
            }
            3 | 4 | 8 | 12 => drop(self.bool()?),
            _ => return None,
        }
        Some(())
    }

    /// Reads the paths of created nodes, in order, from the body of a reply to a request with this opcode.
    pub fn created(&mut self, opcode: i32) -> Option<Vec<String>> {
        const STAT: usize = 68;
        match opcode {
            1 | 15 | 19 | 21 => return Some(vec![self.string()?]),
            14 => {}
            _ => return Some(Vec::new()),
        }
        let mut paths = Vec::new();
        while let Some(kind) = self.part()? {
            match kind {
                1 => paths.push(self.string()?),
                15 | 19 | 21 => {
                    paths.push(self.string()?);
                    self.bytes(STAT)?;
                }
                5 => drop(self.bytes(STAT)?),
                2 | 13 | 20 => {}
                _ => return None,
            }
        }
        Some(paths)
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
