//! Parses a gate into its condition, or reports the first mistake with its position and a correction.

use std::fmt;
use std::ops::Range;

use super::{
    Across, Condition, Limit, Quantity, Reference, Relation, Rule, Scope, Subject, Written, has_floor,
};
use crate::diagnostic::nearest;
use zklockbench_core::catalog::{LockCard, NOT_ZOOKEEPER, own_label};
use zklockbench_core::measure::{Better, Figure, FigureCard, Unit};
use zklockbench_core::units::shown;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Byte range of the offending text; empty if something is missing.
    pub span: Range<usize>,
    /// Column of the span's first character, counted from 1.
    pub column: usize,
    pub message: String,
    pub help: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}; {}", self.column, self.message, self.help)
    }
}

impl std::error::Error for Mistake {}

#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    pub figures: &'a [&'static FigureCard],
    /// Strategies and contenders of the scenario; `None` if unknown, so that any name is valid.
    pub cells: Option<KnownCells<'a>>,
}

/// A scenario's strategies, by label, and its contender counts.
#[derive(Debug, Clone, Copy)]
pub struct KnownCells<'a> {
    pub strategies: &'a [String],
    /// Locks of the strategies, which gates may refer to by an alias.
    pub locks: &'a [LockCard],
    pub contenders: &'a [usize],
}

/// Parses a condition. Strategies and contenders outside the known cells are mistakes.
pub fn parse(text: &str, known: Known<'_>) -> Result<Condition, Mistake> {
    let mut reader = Reader { text, known, tokens: tokens(text), at: 0 };
    let condition = reader.condition()?;
    match reader.peek()? {
        None => Ok(condition),
        Some((token, span)) => Err(reader.mistake(
            span,
            format!("unexpected {token} after the end of the gate"),
            "use a separate gate for a second condition",
        )),
    }
}

/// Returns a label in the syntax of gates: quoted unless it is one word.
pub(super) fn quoted(label: &str) -> String {
    let is_word = label.chars().next().is_some_and(begins_word) && label.chars().all(is_in_word);
    match (is_word, label.contains('"')) {
        (true, _) => label.to_owned(),
        (false, false) => format!("\"{label}\""),
        (false, true) => format!("'{label}'"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lexeme<'t> {
    Word(&'t str),
    Quoted(&'t str),
    Number(&'t str),
    Relation(Relation),
    Times,
    Percent,
    Slash,
    /// Characters that are not allowed in a gate.
    Stray(&'t str),
    /// An unclosed quote and the text after it.
    Unclosed(&'t str),
}

impl fmt::Display for Lexeme<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Word(text) | Self::Number(text) | Self::Stray(text) | Self::Unclosed(text) => *text,
            Self::Quoted(text) => return write!(f, "\"{}\"", shown(text, 60)),
            Self::Relation(relation) => relation.sign(),
            Self::Times => "*",
            Self::Percent => "%",
            Self::Slash => "/",
        };
        write!(f, "`{}`", shown(text, 60))
    }
}

impl<'t> Lexeme<'t> {
    fn word(self) -> Option<&'t str> {
        if let Self::Word(word) = self { Some(word) } else { None }
    }

    fn digits(self) -> Option<&'t str> {
        if let Self::Number(digits) = self { Some(digits) } else { None }
    }
}

fn begins_word(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == 'µ'
}

fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() || "_-.µ".contains(c)
}

fn tokens(text: &str) -> Vec<(Lexeme<'_>, Range<usize>)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let from = text.len() - rest.len();
        let (token, length) = token(rest, first);
        found.push((token, from..from + length));
        rest = rest[length..].trim_start();
    }
    found
}

/// Returns the first token of the text and its length in bytes.
fn token(rest: &str, first: char) -> (Lexeme<'_>, usize) {
    let run = |of: fn(char) -> bool| rest.find(|c| !of(c)).unwrap_or(rest.len());
    // `<=` starts with `<`, so take the longest relation that matches.
    let relations = Relation::ALL.into_iter().filter(|one| rest.starts_with(one.sign()));
    if let Some(relation) = relations.max_by_key(|one| one.sign().len()) {
        return (Lexeme::Relation(relation), relation.sign().len());
    }
    match first {
        '"' | '\'' => match rest[1..].find(first) {
            Some(length) => (Lexeme::Quoted(&rest[1..=length]), length + 2),
            None => (Lexeme::Unclosed(rest), rest.len()),
        },
        '0'..='9' => {
            let length = number(rest);
            (Lexeme::Number(&rest[..length]), length)
        }
        '*' => (Lexeme::Times, 1),
        '%' => (Lexeme::Percent, 1),
        '/' => (Lexeme::Slash, 1),
        _ if begins_word(first) => {
            let length = run(is_in_word);
            (Lexeme::Word(&rest[..length]), length)
        }
        // Operators such as `!=` and `=<` are reported as a whole.
        _ if first.is_ascii_punctuation() => {
            let length = run(|c| "=<>!~&|".contains(c)).max(1);
            (Lexeme::Stray(&rest[..length]), length)
        }
        _ => (Lexeme::Stray(&rest[..first.len_utf8()]), first.len_utf8()),
    }
}

/// Returns the length of the number at the start of the text: digits, and a point if more digits follow.
fn number(rest: &str) -> usize {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let whole = digits(rest);
    let fraction = rest[whole..].strip_prefix('.').map_or(0, digits);
    if fraction > 0 { whole + 1 + fraction } else { whole }
}

const RELATIONS: &str = "write <, <=, >, >= or == and a limit, or `not regressed by 5% against baseline`";

struct Reader<'t, 'k> {
    text: &'t str,
    known: Known<'k>,
    tokens: Vec<(Lexeme<'t>, Range<usize>)>,
    at: usize,
}

type Read<T> = Result<T, Mistake>;

impl<'t> Reader<'t, '_> {
    fn condition(&mut self) -> Read<Condition> {
        let across = self.across()?;
        let (subject, subject_at) = self.subject("a gate starts with a metric, e.g. `wait.p99 < 50ms`")?;
        let rule = match self.peek()? {
            Some((Lexeme::Word("not"), _)) => self.not_regressed(&subject, subject_at)?,
            Some((Lexeme::Relation(relation), span)) => {
                self.at += 1;
                self.compared(&subject, relation, span)?
            }
            other => return Err(self.unexpected(other, "a relation", RELATIONS)),
        };
        if let Some((across, span)) = &across
            && !matches!(rule, Rule::Compare(_, Limit::Value(_) | Limit::Times(_, Reference::Floor)))
        {
            let message = format!("`{}` is not allowed in a comparison of repetitions", across.word());
            return Err(self.mistake(
                span.clone(),
                message,
                "remove it: repetitions are compared in pairs or by rank",
            ));
        }
        Ok(Condition { across: across.map(|(across, _)| across), subject, rule })
    }

    fn across(&mut self) -> Read<Option<(Across, Range<usize>)>> {
        let Some((Lexeme::Word(word), span)) = self.peek()? else { return Ok(None) };
        let found = Across::ALL.into_iter().find(|across| across.word() == word);
        self.at += usize::from(found.is_some());
        Ok(found.map(|across| (across, span)))
    }

    /// Reads a metric with its scope. Also returns the metric's position.
    fn subject(&mut self, help: &str) -> Read<(Subject, Range<usize>)> {
        let (name, span) = self.take(Lexeme::word, "a metric", help)?;
        let figure = Figure::named(name, self.known.figures).map_err(|why| {
            let (message, help) = why.split_once("; ").or_else(|| why.split_once(": ")).unwrap_or((&why, ""));
            self.mistake(span.clone(), message, help)
        })?;
        Ok((Subject { figure, scope: self.scope()? }, span))
    }

    fn scope(&mut self) -> Read<Scope> {
        let mut scope = Scope::default();
        loop {
            match self.peek()? {
                Some((Lexeme::Word("of"), _)) if scope.strategy.is_none() => {
                    self.at += 1;
                    scope.strategy = Some(self.strategy()?);
                }
                Some((Lexeme::Word("at"), _)) if scope.contenders.is_none() => {
                    self.at += 1;
                    scope.contenders = Some(self.contenders()?);
                }
                Some((Lexeme::Word(word @ ("of" | "at")), span)) => {
                    return Err(self.mistake(span, format!("duplicate `{word}`"), "remove one of the two"));
                }
                _ => return Ok(scope),
            }
        }
    }

    fn strategy(&mut self) -> Read<String> {
        let label = |token| match token {
            Lexeme::Quoted(label) => Some(label).filter(|label| !label.trim().is_empty()),
            other => other.word(),
        };
        let help = "use a label from the scenario; quote a label of several words";
        let (label, span) = self.take(label, "a strategy", help)?;
        let Some(known) = self.known.cells else { return Ok(label.to_owned()) };
        // The label of another system's lock ends with a suffix that gates may omit.
        let own = own_label(label, known.locks);
        let is_it = |one: &&String| **one == own || one.strip_suffix(NOT_ZOOKEEPER) == Some(&own);
        match known.strategies.iter().find(is_it) {
            Some(one) => Ok(one.clone()),
            None => {
                let message = format!("the scenario has no strategy `{}`", shown(label, 60));
                Err(self.mistake(span, message, strategies_help(&own, known.strategies)))
            }
        }
    }

    fn contenders(&mut self) -> Read<usize> {
        const HELP: &str = "write, for example, `at 20 contenders`";
        let (digits, span) = self.take(Lexeme::digits, "a number of contenders", HELP)?;
        let Some(count) = digits.parse().ok().filter(|count| *count > 0_usize) else {
            return Err(self.mistake(
                span,
                format!("`{}` is not a number of contenders", shown(digits, 60)),
                HELP,
            ));
        };
        if let Some(known) = self.known.cells.filter(|known| !known.contenders.contains(&count)) {
            let all: Vec<_> = known.contenders.iter().map(ToString::to_string).collect();
            let message = format!("the scenario has no trials with {count} contenders");
            return Err(self.mistake(span, message, format!("it has trials with {}", all.join(", "))));
        }
        self.one_of(&["contenders", "contender"], HELP)?;
        Ok(count)
    }

    fn not_regressed(&mut self, subject: &Subject, subject_at: Range<usize>) -> Read<Rule> {
        const HELP: &str = "write `not regressed by 5% against baseline`";
        for word in ["not", "regressed", "by"] {
            self.one_of(&[word], HELP)?;
        }
        let (number, span) = self.number(HELP)?;
        self.take(|token| (token == Lexeme::Percent).then_some(()), "`%`", HELP)?;
        if !(number > 0.0 && number <= 1_000.0) {
            let message = "a regression must be more than 0% and at most 1000%";
            return Err(self.mistake(span, message, "write, for example, `by 5%`"));
        }
        for word in ["against", "baseline"] {
            self.one_of(&[word], HELP)?;
        }
        if subject.figure.better() == Better::Neither {
            let message =
                format!("`{}` is a property of the load: neither direction is worse", subject.figure);
            return Err(self.mistake(subject_at, message, "use a metric of the lock, e.g. wait.p99"));
        }
        Ok(Rule::NotRegressed { percent: number })
    }

    fn compared(&mut self, subject: &Subject, relation: Relation, sign: Range<usize>) -> Read<Rule> {
        let figure = subject.figure;
        if relation == Relation::Equal && !figure.is_count() {
            let message = format!("`{figure}` is a measured value, which cannot be compared with `==`");
            return Err(self.mistake(sign, message, "write <= or >=; == is for counts such as `violations`"));
        }
        let from = self.at;
        let limit = self.limit(subject)?;
        if relation == Relation::Equal && !matches!(limit, Limit::Value(_)) {
            let message = "== compares a count with a number";
            return Err(self.mistake(sign, message, "write the number, or <= or >="));
        }
        if let Limit::Value(quantity) = limit
            && let Some((message, help)) = decided(figure, relation, quantity)
        {
            return Err(self.mistake(self.since(from), message, help));
        }
        Ok(Rule::Compare(relation, limit))
    }

    fn limit(&mut self, subject: &Subject) -> Read<Limit> {
        let help = format!("write {}", in_words(subject.figure.unit()).1);
        if let Some((Lexeme::Number(_), _)) = self.peek()? {
            let from = self.at;
            let (number, span) = self.number(&help)?;
            if let Some((Lexeme::Times, _)) = self.peek()? {
                self.at += 1;
                if number <= 0.0 {
                    return Err(self.mistake(span, "the factor is 0", "write a factor such as 1.2"));
                }
                return Ok(Limit::Times(number, self.reference(subject)?));
            }
            if let Some((Lexeme::Word("floor"), span)) = self.peek()? {
                let help = "write, for example, `3 * floor`";
                return Err(self.mistake(span, "there is no `*` before `floor`", help));
            }
            let unit = self.unit()?;
            return match unit.filter(|unit| unit.fits(subject.figure.unit())) {
                Some(unit) => Ok(Limit::Value(Quantity { number, unit })),
                None => {
                    let span = self.since(from);
                    let why = no_fit(subject.figure, &self.text[span.clone()], number, unit);
                    Err(self.mistake(span, why, help))
                }
            };
        }
        if !matches!(self.peek()?, Some((Lexeme::Word(_), _))) {
            return Err(self.unexpected(self.peek()?, "a limit", &help));
        }
        if let Some((Lexeme::Word(word), span)) = self.peek()?
            && ["nan", "inf", "infinity"].contains(&word.to_lowercase().as_str())
        {
            return Err(self.mistake(span, format!("`{word}` is not a limit"), help));
        }
        Ok(Limit::Times(1.0, self.reference(subject)?))
    }

    /// Reads a reference: the floor, or a metric with the same unit.
    fn reference(&mut self, subject: &Subject) -> Read<Reference> {
        let figure = subject.figure;
        if let Some((Lexeme::Word("floor"), span)) = self.peek()? {
            self.at += 1;
            if has_floor(figure) {
                return Ok(Reference::Floor);
            }
            let help = "compare a percentile of `handoff` or `uncontended` with the floor";
            return Err(self.mistake(span, format!("there is no floor for `{figure}`"), help));
        }
        let from = self.at;
        let (any, example) = in_words(figure.unit());
        let help = format!("write {example}");
        let (other, span) = self.subject(&help)?;
        if other.figure.unit() != figure.unit() {
            let message = format!("`{}` and `{figure}` have different units", other.figure);
            return Err(self.mistake(span, message, format!("compare it with {any}")));
        }
        let is_own = |own: &Scope, its: &Scope| {
            (its.strategy.is_none() || its.strategy == own.strategy)
                && (its.contenders.is_none() || its.contenders == own.contenders)
        };
        if other.figure == figure && is_own(&subject.scope, &other.scope) {
            let message = format!("`{figure}` is compared with itself");
            let help = "use another strategy (`of`) or another number of contenders (`at`)";
            return Err(self.mistake(self.since(from), message, help));
        }
        Ok(Reference::Figure(other))
    }

    /// Reads the unit after a number: [`Written::NOTHING`] if no unit follows, `None` if the unit is unknown.
    fn unit(&mut self) -> Read<Option<Written>> {
        let text = match self.peek()? {
            None => return Ok(Some(Written::NOTHING)),
            Some((Lexeme::Percent, _)) => "%",
            Some((Lexeme::Slash, _)) => {
                self.at += 1;
                match self.peek()? {
                    Some((Lexeme::Word("s"), _)) => "/s",
                    _ => return Ok(None),
                }
            }
            Some((Lexeme::Word("µs" | "μs"), _)) => "us",
            Some((Lexeme::Word("min"), _)) => "m",
            Some((Lexeme::Word(word), _)) => word,
            Some(_) => return Ok(Some(Written::NOTHING)),
        };
        self.at += 1;
        Ok(Written::ALL.into_iter().find(|unit| unit.text == text))
    }

    fn number(&mut self, help: &str) -> Read<(f64, Range<usize>)> {
        let (digits, span) = self.take(Lexeme::digits, "a number", help)?;
        // Below this limit, the value is finite in every unit.
        match digits.parse().ok().filter(|number: &f64| *number < 1e18) {
            Some(number) => Ok((number, span)),
            None => Err(self.mistake(span, "the number is too large", help)),
        }
    }

    fn one_of(&mut self, words: &[&str], help: &str) -> Read<()> {
        let expected = format!("`{}`", words.first().unwrap_or(&""));
        self.take(|token| token.word().filter(|word| words.contains(word)), &expected, help).map(drop)
    }

    /// Takes the next token if it is the expected one.
    fn take<T>(
        &mut self,
        wanted: impl Fn(Lexeme<'t>) -> Option<T>,
        expected: &str,
        help: &str,
    ) -> Read<(T, Range<usize>)> {
        let found = self.peek()?;
        let taken = found.clone().and_then(|(token, span)| Some((wanted(token)?, span)));
        let taken = taken.ok_or_else(|| self.unexpected(found, expected, help))?;
        self.at += 1;
        Ok(taken)
    }

    /// Returns the next token, or a mistake if the token is not allowed in a gate.
    fn peek(&self) -> Read<Option<(Lexeme<'t>, Range<usize>)>> {
        let Some((token, span)) = self.tokens.get(self.at).cloned() else { return Ok(None) };
        match token {
            Lexeme::Stray(text) => {
                Err(self.mistake(span, format!("{token} is not allowed in a gate"), stray_help(text)))
            }
            Lexeme::Unclosed(_) => {
                let help = "end the label with the quote that opened it";
                Err(self.mistake(span, "the quote is not closed", help))
            }
            _ => Ok(Some((token, span))),
        }
    }

    /// Returns the mistake for an unexpected token, or for the end of the text.
    fn unexpected(&self, found: Option<(Lexeme<'t>, Range<usize>)>, expected: &str, help: &str) -> Mistake {
        let end = self.text.trim_end().len();
        let (message, span) = match found {
            Some((token, span)) => (format!("expected {expected}, found {token}"), span),
            None => (format!("expected {expected}"), end..end),
        };
        self.mistake(span, message, help)
    }

    /// Returns the span from this token to the last token read.
    fn since(&self, from: usize) -> Range<usize> {
        let start = self.tokens.get(from).map_or(self.text.len(), |(_, span)| span.start);
        let end =
            self.at.checked_sub(1).and_then(|last| self.tokens.get(last)).map_or(start, |(_, span)| span.end);
        start..end.max(start)
    }

    fn mistake(&self, span: Range<usize>, message: impl Into<String>, help: impl Into<String>) -> Mistake {
        let column = self.text[..span.start].chars().count() + 1;
        Mistake { span, column, message: message.into(), help: help.into() }
    }
}

fn stray_help(text: &str) -> &'static str {
    match text.chars().next() {
        Some('-' | '+') => "write the number without a sign: no metric is negative",
        Some('=' | '!' | '<' | '>' | '~' | '≤' | '≥' | '≠') => RELATIONS,
        Some('&' | '|' | ',' | ';') => "use a separate gate for a second condition",
        _ => "write a gate like `wait.p99 of baton at 20 contenders < 50ms`",
    }
}

fn strategies_help(label: &str, strategies: &[String]) -> String {
    match nearest(label, strategies.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean `{}`?", quoted(meant)),
        None => {
            let all: Vec<_> = strategies.iter().map(|one| format!("`{}`", quoted(one))).collect();
            format!("it has {}", all.join(", "))
        }
    }
}

fn no_fit(figure: Figure, text: &str, number: f64, unit: Option<Written>) -> String {
    match (unit, figure.unit()) {
        (Some(Written::NOTHING), _) => format!("`{number}` has no unit, but `{figure}` has one"),
        (Some(unit), Unit::Amount) => {
            format!("`{figure}` has no unit, but `{number}{}` has one", unit.text)
        }
        (Some(unit), _) => format!("`{number}{}` is not a value of `{figure}`", unit.text),
        (None, _) => format!("unknown unit in `{}`", shown(text, 60)),
    }
}

/// Returns a description and an example of a value in this unit.
fn in_words(unit: Unit) -> (&'static str, &'static str) {
    match unit {
        Unit::Micros => ("a time", "a time such as `50ms`, in us, ms, s, m or h"),
        Unit::PerSecond => ("a rate", "a rate such as `100/s`"),
        Unit::Amount => ("a number without a unit", "a number such as `4`, without a unit"),
        Unit::Bytes => ("a size", "a size such as `500B`, in B, kB or MB"),
        Unit::Share => ("a share", "a share such as `0.9` or `90%`"),
    }
}

/// Explains the problem with a limit that every run or no run meets; `None` if some runs can meet it and
/// others not.
fn decided(figure: Figure, relation: Relation, limit: Quantity) -> Option<(String, &'static str)> {
    let value = limit.value();
    if relation == Relation::Equal && value.fract() != 0.0 {
        return Some((format!("`{figure}` is a whole number"), "write a whole number"));
    }
    let most = if figure.unit() == Unit::Share { 1.0 } else { f64::INFINITY };
    // Values range from 0 to `most`.
    let always = match relation {
        Relation::Less => value > most,
        Relation::AtMost => value >= most,
        Relation::AtLeast => value <= 0.0,
        Relation::More | Relation::Equal => false,
    };
    let never = match relation {
        Relation::Less => value <= 0.0,
        Relation::More => value >= most,
        Relation::AtLeast | Relation::Equal => value > most,
        Relation::AtMost => false,
    };
    let range = if most.is_finite() { "between 0 and 1" } else { "never below 0" };
    match (always, never) {
        (true, _) => {
            Some((format!("every run passes: `{figure}` is {range}"), "write a limit that can fail"))
        }
        (_, true) => {
            Some((format!("no run can pass: `{figure}` is {range}"), "write a limit that can be met"))
        }
        _ => None,
    }
}
