//! Snapshots that contain both inputs and answers. A new case needs no new test.
//!
//! A case consists of input lines followed by answer lines, which start with `#`. Titles start with `##`. A line
//! `% text` is a variant of the case above: `text` replaces `...` in the case. In `text`, `; ` stands for a
//! newline, and `(nothing)` for an empty string. To add a case, write `# ?` as its answer.

/// Returns the snapshot with the current answer to each case.
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
    assert!(open.is_none() && said.contains("\n# "), "a case has no answer; write `# ?` below it: {open:?}");
    said
}
