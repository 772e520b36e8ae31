//! Conditions on figures, in the gates' grammar where a figure has a name of its own:
//!
//! ```text
//! condition = check { "and" check }
//! check     = figure ( "<" | "<=" | ">" | ">=" | "==" ) ( number unit | [ number "*" ] figure )
//! unit      = "us" | "ms" | "s" | "%" | nothing
//! ```
//!
//! A check holds where the whole interval of its figure is on that side of the limit, and fails where the whole interval is on
//! the other. In between it is unknown, and so is the condition.

use super::figure::Figure;
use crate::scenario::gate::{Quantity, Relation, Written};

/// Finds a figure by its name.
pub type Lookup<'a> = dyn Fn(&str) -> Option<&'a Figure> + 'a;

/// Whether a condition holds; `None` where that is unknown.
///
/// # Errors
/// What of its text means nothing, or names no figure.
pub fn holds(condition: &str, figures: &Lookup<'_>) -> Result<Option<bool>, String> {
    let mut all = Some(true);
    for text in condition.split(" and ") {
        all = match (all, check(text, figures)?) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
    }
    Ok(all)
}

fn check(text: &str, figures: &Lookup<'_>) -> Result<Option<bool>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, sign, limit @ ..] = words.as_slice() else {
        return Err(format!("`{text}` is not a figure, a relation and a limit"));
    };
    let relation = Relation::ALL.into_iter().find(|one| one.sign() == *sign);
    let relation = relation.ok_or_else(|| format!("`{sign}` in `{text}` is no relation"))?;
    let figure = named(name, figures)?;
    let (low, high) = match limit {
        [factor, "*", other] => {
            let (factor, other) = (quantity(factor)?, named(other, figures)?);
            (factor * other.low(), factor * other.high())
        }
        [other] if figures(other).is_some() => {
            let other = named(other, figures)?;
            (other.low(), other.high())
        }
        [number] => (quantity(number)?, quantity(number)?),
        _ => return Err(format!("the limit of `{text}` is neither a number nor a figure")),
    };
    let corners = [(figure.low(), low), (figure.low(), high), (figure.high(), low), (figure.high(), high)];
    let held = corners.iter().filter(|(value, limit)| relation.holds(*value, *limit)).count();
    Ok(if held == corners.len() { Some(true) } else { (held == 0).then_some(false) })
}

fn named<'a>(name: &str, figures: &Lookup<'a>) -> Result<&'a Figure, String> {
    figures(name).ok_or_else(|| format!("there is no figure `{name}`"))
}

fn quantity(text: &str) -> Result<f64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..digits].parse();
    let unit = Written::ALL.into_iter().find(|unit| unit.text == &text[digits..]);
    match (number, unit) {
        (Ok(number), Some(unit)) => Ok(Quantity { number, unit }.value()),
        _ => Err(format!("`{text}` is neither a figure nor a number")),
    }
}

/// A sentence with each `{name}` replaced by the figure's value.
///
/// # Errors
/// A name that no figure has, or a brace that nothing closes.
pub fn filled(sentence: &str, figures: &Lookup<'_>) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) =
            after.split_once('}').ok_or_else(|| format!("a brace is not closed in `{sentence}`"))?;
        text += before;
        text += &named(name, figures)?.shown();
        rest = after;
    }
    Ok(text + rest)
}

#[cfg(test)]
mod tests {
    use super::super::figure::Of;
    use super::*;

    #[test]
    fn a_condition_holds_fails_or_is_unknown_by_the_intervals_of_its_figures() {
        // Given a figure that lies between 1.5 and 2.5, and exact ones
        let wide = Figure::median("", &[1.5, 2.5], Of::Amount).unwrap();
        let (none, long) = (Figure::new("", 0.0, Of::Amount), Figure::new("", 2e6, Of::Us));
        let find = |name: &str| match name {
            "wide" => Some(&wide),
            "none" => Some(&none),
            "long" => Some(&long),
            _ => None,
        };
        for (condition, expected) in [
            ("wide > 1", Some(true)),
            ("wide > 3", Some(false)),
            ("wide > 2", None),
            ("none == 0", Some(true)),
            ("none == 0 and wide > 2", None),
            ("wide > 2 and none > 0", Some(false)),
            ("long >= 2s", Some(true)),
            ("long < 1500ms", Some(false)),
            ("wide < 3 * wide", Some(true)),
            ("none < wide", Some(true)),
        ] {
            assert_eq!(holds(condition, &find), Ok(expected), "{condition}");
        }
        // And what means nothing is told
        for wrong in ["wide", "wide >> 2", "other > 2", "wide > 2 3", "wide > many"] {
            assert!(holds(wrong, &find).is_err(), "{wrong}");
        }
        assert_eq!(filled("it took {long}", &find), Ok("it took 2 s".into()));
        assert!(filled("it took {other}", &find).is_err() && filled("it took {long", &find).is_err());
    }
}
