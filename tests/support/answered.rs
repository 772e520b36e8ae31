//! Snapshots whose cases hold their own questions: a file is easier to read and to add to than a test for each case.
//!
//! A case consists of the lines before an answer, which begins with `#`; titles begin with `##`. A line `% text` is a
//! variant of the case above it: `text` replaces the `...` of the case, and `; ` begins a new line (`(nothing)` is
//! empty). A new case or variant needs only `# ?` below it.

/// The snapshot with the answers that its cases have now.
pub fn answered(snapshot: &str, mut answer: impl FnMut(&str) -> String) -> String {
    let (_, body) = snapshot.split_once("\n---\n").expect("insta's header ends with three dashes");
    let (mut said, mut case, mut open) = (String::new(), String::new(), None);
    for line in body.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("## ") {
            case.clear();
            said += &format!("\n{line}\n\n");
        } else if let Some(variant) = line.strip_prefix("% ") {
            let variant = if variant == "(nothing)" { "" } else { variant };
            open = Some(case.replace("...", &variant.replace("; ", "\n")));
            said += &format!("{line}\n");
        } else if !line.starts_with('#') {
            let before = if open.is_none() { "" } else { case.as_str() };
            case = format!("{before}{line}\n");
            open = Some(case.clone());
            said += &format!("{line}\n");
        } else if let Some(text) = open.take() {
            said += &format!("# {}\n", answer(&text).trim_end().replace('\n', "\n# "));
        }
    }
    assert!(open.is_none() && said.contains("\n# "), "no answer, not even `# ?`, stands below: {open:?}");
    said
}
