//! How many blocks are run.
//!
//! Stopping as soon as a difference is significant finds one sooner or later, even between a program and itself. So
//! nothing here looks at a p or a verdict: a comparison ends after a number of blocks that was fixed before it began, or
//! when its intervals are as narrow as was asked for, whatever they hold.
//!
//! A block that the machine spoiled is made up for by another one, up to a bound. That looks at no value either: a trial
//! is invalid by what was seen of the generator and the host.

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    /// Blocks that are run in any case.
    pub blocks: u32,
    /// How far every interval may reach to either side of its middle, as a share; `None` where the blocks alone decide.
    pub until: Option<f64>,
    /// After so many blocks it ends even so.
    pub at_most: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress<'a> {
    pub done: u32,
    /// How many of them lack a pair because a run was spoiled.
    pub spoiled: u32,
    /// How wide the interval of each comparison is that has a pair; `None` where it has none yet.
    pub half_widths: &'a [Option<f64>],
}

/// What follows after a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Another,
    /// Nothing: all were run, or the intervals are narrow enough.
    Enough,
    /// Nothing, though some interval is still too wide.
    Cap,
}

impl Length {
    /// How many blocks are made up for at most: a machine that spoils more than every third is no place to measure.
    pub fn made_up_at_most(&self) -> u32 {
        self.blocks.div_ceil(2)
    }

    /// How many blocks are run in any case, now that so many were spoiled.
    pub fn planned(&self, spoiled: u32) -> u32 {
        self.blocks.saturating_add(spoiled.min(self.made_up_at_most()))
    }

    pub fn after(&self, so_far: Progress<'_>) -> Next {
        let planned = self.planned(so_far.spoiled);
        if so_far.done < planned {
            return Next::Another;
        }
        let Some(share) = self.until else { return Next::Enough };
        if so_far.half_widths.iter().all(|half| half.is_some_and(|half| half <= share)) {
            return Next::Enough;
        }
        let at_most = self.at_most.saturating_add(planned - self.blocks);
        if so_far.done >= at_most { Next::Cap } else { Next::Another }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTIL: Length = Length { blocks: 4, until: Some(0.03), at_most: 10 };
    const NARROW: Option<f64> = Some(0.03);
    const WIDE: Option<f64> = Some(0.031);

    fn so_far(done: u32, half_widths: &[Option<f64>]) -> Progress<'_> {
        Progress { done, spoiled: 0, half_widths }
    }

    #[test]
    fn without_a_width_the_number_of_blocks_alone_decides() {
        let fixed = Length { until: None, ..UNTIL };
        assert_eq!(fixed.after(so_far(3, &[NARROW])), Next::Another);
        assert_eq!(fixed.after(so_far(4, &[WIDE, None])), Next::Enough);
    }

    #[test]
    fn it_goes_on_until_the_widest_interval_is_narrow_enough() {
        assert_eq!(UNTIL.after(so_far(3, &[NARROW])), Next::Another, "so many are run in any case");
        assert_eq!(UNTIL.after(so_far(4, &[NARROW, NARROW])), Next::Enough);
        assert_eq!(UNTIL.after(so_far(4, &[NARROW, WIDE])), Next::Another);
        assert_eq!(UNTIL.after(so_far(4, &[NARROW, None])), Next::Another, "no interval is no narrow one");
        assert_eq!(UNTIL.after(so_far(4, &[Some(f64::INFINITY)])), Next::Another);
        assert_eq!(UNTIL.after(so_far(4, &[Some(f64::NAN)])), Next::Another);
    }

    #[test]
    fn it_ends_at_the_cap_and_says_so_only_where_the_width_was_not_reached() {
        assert_eq!(UNTIL.after(so_far(10, &[WIDE])), Next::Cap);
        assert_eq!(UNTIL.after(so_far(10, &[NARROW])), Next::Enough);
    }

    #[test]
    fn a_spoiled_block_is_made_up_for_up_to_half_of_what_was_asked() {
        let fixed = Length { until: None, ..UNTIL };
        let after = |done, spoiled| fixed.after(Progress { done, spoiled, half_widths: &[NARROW] });
        assert_eq!(after(4, 1), Next::Another);
        assert_eq!(after(5, 1), Next::Enough);
        assert_eq!(after(5, 2), Next::Another, "the one that makes up for it can be spoiled, too");
        assert_eq!(after(6, 6), Next::Enough, "there is no end of it otherwise");
        // And the cap moves with it
        assert_eq!(UNTIL.after(Progress { done: 10, spoiled: 1, half_widths: &[WIDE] }), Next::Another);
        assert_eq!(UNTIL.after(Progress { done: 11, spoiled: 1, half_widths: &[WIDE] }), Next::Cap);
    }
}
