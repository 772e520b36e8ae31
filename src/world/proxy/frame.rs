//! Frames in a stream of bytes: a length of four bytes, then so many bytes.
//!
//! Only the beginning of a frame is kept, so its length costs no memory, and a frame may be split anywhere.

/// The longest frame that is believed. ZooKeeper's own limit is 1 MiB unless it is raised; four-letter words and
/// TLS read as lengths of more than this.
const LONGEST: usize = 64 << 20;
/// So much of a frame is kept: its header, and a path.
const KEPT: usize = 2048;
/// The bytes of the length.
const LENGTH: usize = 4;

#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Where it begins in the bytes at hand; 0 when it began in earlier ones.
    pub start: usize,
    /// Where it ends in the bytes at hand.
    pub end: usize,
    /// Its first bytes after the length.
    pub head: &'a [u8],
    /// All its bytes, the length included.
    pub bytes: usize,
}

/// Finds the frames of one direction of a connection.
#[derive(Debug, Default)]
pub struct Frames {
    /// The length and the first bytes of the frame that is under way.
    held: Vec<u8>,
    /// How many of its bytes have come, length included.
    seen: usize,
    opaque: bool,
}

impl Frames {
    /// Calls `each` with every frame that ends in these bytes. An error says that the stream is something else
    /// than was thought; nothing is found in it from then on.
    pub fn read(&mut self, bytes: &[u8], mut each: impl FnMut(&Frame<'_>) -> Result<(), NotFrames>) {
        let mut at = 0;
        let mut start = 0;
        while !self.opaque && self.advance(bytes, &mut at) {
            let frame = Frame { start, end: at, head: &self.held[LENGTH..], bytes: self.seen };
            self.opaque = each(&frame).is_err();
            self.held.clear();
            self.seen = 0;
            start = at;
        }
    }

    /// Reads on in the frame under way; whether it is complete.
    fn advance(&mut self, bytes: &[u8], at: &mut usize) -> bool {
        let missing = LENGTH.saturating_sub(self.seen);
        self.take(bytes, at, missing);
        let Some(length) = self.length() else { return false };
        if length > LONGEST {
            self.opaque = true;
            return false;
        }
        self.take(bytes, at, LENGTH + length - self.seen);
        self.seen == LENGTH + length
    }

    /// The length, once it has come; a negative one counts as too long.
    fn length(&self) -> Option<usize> {
        let bytes = self.held.first_chunk::<LENGTH>()?;
        Some(usize::try_from(i32::from_be_bytes(*bytes)).unwrap_or(usize::MAX))
    }

    /// Takes at most so many bytes, and keeps what there is room for.
    fn take(&mut self, bytes: &[u8], at: &mut usize, most: usize) {
        let rest = &bytes[*at..];
        let taken = &rest[..most.min(rest.len())];
        let kept = taken.len().min((LENGTH + KEPT).saturating_sub(self.held.len()));
        self.held.extend_from_slice(&taken[..kept]);
        self.seen += taken.len();
        *at += taken.len();
    }
}

/// The stream does not hold what it was thought to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFrames;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The heads of all frames in a stream that comes in pieces, and where each ends in the whole.
    fn found(pieces: &[&[u8]]) -> Vec<(usize, Vec<u8>)> {
        let (mut frames, mut found, mut before) = (Frames::default(), Vec::new(), 0);
        for piece in pieces {
            frames.read(piece, |frame| {
                assert!(frame.start <= frame.end && frame.end <= piece.len());
                found.push((before + frame.end, frame.head.to_vec()));
                Ok(())
            });
            before += piece.len();
        }
        found
    }

    fn framed(body: &[u8]) -> Vec<u8> {
        [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
    }

    fn split<'a>(stream: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect()
    }

    proptest! {
        #[test]
        fn any_split_of_a_stream_gives_the_same_frames(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let stream: Vec<u8> = bodies.iter().flat_map(|body| framed(body)).collect();
            let mut end = 0;
            let expected: Vec<_> = bodies.iter().map(|body| {
                end += LENGTH + body.len();
                (end, body[..body.len().min(KEPT)].to_vec())
            }).collect();
            prop_assert_eq!(found(&split(&stream, &cuts)), expected);
        }

        #[test]
        fn garbage_neither_panics_nor_is_kept(
            garbage in prop::collection::vec(any::<u8>(), 0..5000),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let mut frames = Frames::default();
            for piece in split(&garbage, &cuts) {
                frames.read(piece, |_| Ok(()));
                prop_assert!(frames.held.len() <= LENGTH + KEPT);
            }
        }
    }

    #[test]
    fn a_frame_says_where_it_lies_in_the_bytes_at_hand() {
        let stream = [framed(b"one"), framed(b"three")].concat();
        let mut places = Vec::new();
        let mut frames = Frames::default();
        for piece in [&stream[..9], &stream[9..]] {
            frames.read(piece, |frame| {
                places.push((frame.start, frame.end));
                Ok(())
            });
        }
        assert_eq!(places, [(0, 7), (0, 7)]);
        frames.read(&stream, |frame| {
            places.push((frame.start, frame.end));
            Ok(())
        });
        assert_eq!(places[2..], [(0, 7), (7, 16)]);
    }

    #[test]
    fn four_letter_words_and_lengths_below_zero_or_beyond_belief_end_the_understanding() {
        for first in [&b"ruok"[..], b"mntr", &[0xff; 4], &[0x16, 3, 1, 0], &[4, 0, 0, 1]] {
            assert_eq!(found(&[first, &framed(b"hidden")]), [], "{first:?}");
        }
        assert_eq!(found(&[&[0; 4]]), [(4, Vec::new())]);
    }

    #[test]
    fn a_stream_that_is_something_else_is_not_looked_at_again() {
        let mut frames = Frames::default();
        let mut calls = 0;
        for _ in 0..2 {
            frames.read(&[framed(b"a"), framed(b"b")].concat(), |_| {
                calls += 1;
                Err(NotFrames)
            });
        }
        assert_eq!(calls, 1);
    }
}
