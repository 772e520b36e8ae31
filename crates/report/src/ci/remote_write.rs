//! Encodes the body of a Prometheus remote-write request, version 1: a protobuf message in Snappy's block
//! format. Both are encoded by hand, because the message has six fields and Snappy permits uncompressed data.

/// Headers of the request, besides its length.
pub const HEADERS: &str = "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\
                           X-Prometheus-Remote-Write-Version: 0.1.0\r\n";

/// A sample with its labels, which include `__name__`.
pub type Series = (Vec<(String, String)>, f64);

/// Returns the body with one sample per series, all at this time in milliseconds since 1970.
pub fn body(all: Vec<Series>, at_ms: i64) -> Vec<u8> {
    let mut request = Vec::new();
    for (mut labels, value) in all {
        // Receivers require sorted labels.
        labels.sort_unstable();
        let mut series = Vec::new();
        for (name, value) in &labels {
            let label = [field(1, name.as_bytes()), field(2, value.as_bytes())].concat();
            series.extend(field(1, &label));
        }
        let value = [&[1 << 3 | FIXED_64], value.to_le_bytes().as_slice()].concat();
        let time = [vec![2 << 3 | VARINT], varint(at_ms.cast_unsigned())].concat();
        series.extend(field(2, &[value, time].concat()));
        request.extend(field(1, &series));
    }
    uncompressed(&request)
}

// Protobuf's wire types.
const VARINT: u8 = 0;
const FIXED_64: u8 = 1;
const LENGTH: u8 = 2;

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [vec![number << 3 | LENGTH], varint(content.len() as u64), content.to_vec()].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Encodes data in Snappy's block format: the length, then literals of at most 256 bytes.
fn uncompressed(data: &[u8]) -> Vec<u8> {
    let mut block = varint(data.len() as u64);
    for literal in data.chunks(256) {
        const LENGTH_IN_NEXT_BYTE: u8 = 60 << 2;
        block.extend([LENGTH_IN_NEXT_BYTE, (literal.len() - 1) as u8]);
        block.extend(literal);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_is_the_documented_encoding_of_a_sample() {
        let labels = [("b", "2"), ("__name__", "a")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let message = b"\x0a\x29\x0a\x0d\x0a\x08__name__\x12\x01a\x0a\x06\x0a\x01b\x12\x012\
                        \x12\x10\x09\0\0\0\0\0\0\xf8\x3f\x10\x80\xd0\x95\xff\xbc\x31";
        let block = [b"\x2b\xf0\x2a".as_slice(), message].concat();
        assert_eq!(body(vec![(labels.to_vec(), 1.5)], 1_700_000_000_000), block);
    }

    #[test]
    fn long_data_is_split_into_literals() {
        let block = uncompressed(&[7; 257]);
        let expected = [b"\x81\x02\xf0\xff".as_slice(), &[7; 256], b"\xf0\x00\x07"].concat();
        assert_eq!(block, expected);
    }
}
