//! A run with what it came to: what its terminal text, its Markdown, its page and its summary are made from.

use super::View;
use super::conclusions::{Conclusion, conclusions};
use super::gated::Gated;
use super::headline::{Headline, Says};

#[derive(Debug)]
pub struct RunReport<'a> {
    pub view: &'a View<'a>,
    pub gated: &'a Gated,
    /// The most telling first.
    pub conclusions: Vec<Conclusion>,
    pub headline: Headline,
}

impl<'a> RunReport<'a> {
    pub fn of(view: &'a View<'a>, gated: &'a Gated) -> Self {
        let conclusions = conclusions(view);
        let headline = Headline::of(view, gated, &conclusions);
        Self { view, gated, conclusions, headline }
    }

    pub fn other_conclusions(&self) -> &[Conclusion] {
        let told = match self.headline.says {
            Says::Conclusions(told) => told,
            Says::Gate | Says::Run => 0,
        };
        &self.conclusions[told..]
    }
}
