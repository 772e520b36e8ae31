//! How many blocks are run.
//!
//! Whoever stops as soon as a difference is significant finds one sooner or later, even between a program and itself. So
//! nothing here looks at a p or a verdict: a comparison ends after a number of blocks that was fixed before it began, or
//! when its intervals are as narrow as was asked for, whatever they hold.

/// How long a comparison is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    /// Blocks that are run in any case.
    pub blocks: u32,
    /// How far every interval may reach to either side of its middle, as a share: 0.03 for ± 3 %. `None` where the blocks
    /// alone decide.
    pub until: Option<f64>,
    /// After so many blocks it ends even so.
    pub at_most: u32,
}

/// What follows after a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another block.
    Another,
    /// Nothing: all were run, or the intervals are narrow enough.
    Enough,
    /// Nothing, though some interval is still too wide.
    Cap,
}

impl Length {
    /// What follows after so many blocks, of which each comparison that has a pair has an interval so wide, `None` where it
    /// has none yet.
    #[must_use]
    pub fn after(&self, done: u32, half_widths: &[Option<f64>]) -> Next {
        if done < self.blocks {
            return Next::Another;
        }
        let Some(share) = self.until else { return Next::Enough };
        if half_widths.iter().all(|half| half.is_some_and(|half| half <= share)) {
            return Next::Enough;
        }
        if done >= self.at_most { Next::Cap } else { Next::Another }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTIL: Length = Length { blocks: 4, until: Some(0.03), at_most: 10 };
    const NARROW: Option<f64> = Some(0.03);
    const WIDE: Option<f64> = Some(0.031);

    #[test]
    fn without_a_width_the_number_of_blocks_alone_decides() {
        let fixed = Length { until: None, ..UNTIL };
        assert_eq!(fixed.after(3, &[NARROW]), Next::Another);
        assert_eq!(fixed.after(4, &[WIDE, None]), Next::Enough);
    }

    #[test]
    fn it_goes_on_until_the_widest_interval_is_narrow_enough() {
        assert_eq!(UNTIL.after(3, &[NARROW]), Next::Another, "so many are run in any case");
        assert_eq!(UNTIL.after(4, &[NARROW, NARROW]), Next::Enough);
        assert_eq!(UNTIL.after(4, &[NARROW, WIDE]), Next::Another);
        assert_eq!(UNTIL.after(4, &[NARROW, None]), Next::Another, "no interval is no narrow one");
        assert_eq!(UNTIL.after(4, &[Some(f64::INFINITY)]), Next::Another);
        assert_eq!(UNTIL.after(4, &[Some(f64::NAN)]), Next::Another);
    }

    #[test]
    fn it_ends_at_the_cap_and_says_so_only_where_the_width_was_not_reached() {
        assert_eq!(UNTIL.after(10, &[WIDE]), Next::Cap);
        assert_eq!(UNTIL.after(10, &[NARROW]), Next::Enough);
    }
}
