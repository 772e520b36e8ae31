//! Plain numbers as people read them: three significant digits, no more.

/// Prints a number with three significant digits, whole numbers from 100 on in full.
#[must_use]
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 || size == 0.0 => 2,
        size if size >= 0.0995 => 3,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn three_significant_digits_without_idle_zeros() {
        let shown: Vec<_> = [0.0, 0.0312, 0.5, 1.0, 4.016, 12.34, 99.97, 412.4, 12_345.6].map(number).into();
        assert_eq!(shown, ["0", "0.0312", "0.5", "1", "4.02", "12.3", "100", "412", "12346"]);
    }
}
