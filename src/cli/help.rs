//! Additions to clap's `--help`: commands in groups, examples, and a shorter `-h`.

use std::fmt::Write as _;

use clap::{Arg, Command};

use zklockbench_core::error::Exit;

struct HelpEntry {
    command: &'static str,
    examples: Option<[&'static str; 2]>,
    /// Options that `-h` prints by heading ("" is the default one), separated by spaces; empty for all options.
    short: &'static [(&'static str, &'static str)],
}

const fn entry(command: &'static str, first: &'static str, second: &'static str) -> HelpEntry {
    HelpEntry { command, examples: Some([first, second]), short: &[] }
}

impl HelpEntry {
    const fn short(self, short: &'static [(&'static str, &'static str)]) -> Self {
        Self { short, ..self }
    }

    /// Hides all other options from `-h`.
    fn shortened(&self, command: Command) -> Command {
        command.mut_args(|arg| {
            let Some(long) = arg.get_long() else { return arg };
            match self.short.iter().find(|(_, options)| options.split(' ').any(|option| option == long)) {
                Some(("", _)) => with_brief_help(arg).help_heading(None::<&'static str>),
                Some((heading, _)) => with_brief_help(arg).help_heading(*heading),
                None => arg.hide_short_help(true),
            }
        })
    }

    fn examples(&self) -> impl Iterator<Item = String> {
        let example =
            move |after: &str| format!("zklockbench {} {after}", self.command).trim_end().to_owned();
        self.examples.into_iter().flatten().map(example)
    }
}

const MEASURE: &[HelpEntry] = &[
    entry(
        "run",
        "quick --contenders 20 --set hold=100ms",
        "mine.toml --connect zk1:2181,zk2:2181/bench --gate 'wait.p99 < 50ms'",
    )
    .short(&[
        ("", "out gate junit quiet"),
        ("Load and servers", "strategies contenders duration repetitions set connect servers"),
    ]),
    entry(
        "ab",
        "quick --a 'strategies=[\"polling\"]' --b 'strategies=[\"baton\"]'",
        "quick --a-zookeeper-home zookeeper-3.8 --b-zookeeper-home zookeeper-3.9",
    )
    .short(&[
        ("Sides", "a b"),
        ("", "blocks out"),
        ("Load and servers", "strategies contenders set connect servers"),
    ]),
    entry(
        "sweep",
        "quick --over contenders=1..200",
        "open-loop --over rate=10..200 --objective 'wait.p99 < 100ms'",
    )
    .short(&[
        ("", "over objective budget out quiet"),
        ("Load and servers", "strategies contenders duration set connect servers"),
    ]),
    entry("calibrate", "--quick", "--connect zk1:2181,zk2:2181/bench --budget 2m"),
    entry("torture", "--minutes 10", "--seed 7 --rounds 4"),
    entry("explore", "curator-mutex", "'predecessor-watch watch=exists' --contenders 3 --pairs")
        .short(&[("", "contenders budget pairs replay out quiet connect servers")]),
    entry(
        "worker",
        "quick --connect zk1:2181/bench --run-id job-7 --index 0 --of 4",
        "--follow job-7 --connect zk1:2181/bench",
    ),
    entry("merge", "results/job-7", "results/job-7 --baseline baselines --junit junit.xml"),
];

const COMPARE: &[HelpEntry] = &[
    entry("compare", "results/before results/after", "results/before --power 5%"),
    entry("check", "results/quick-1", "history.jsonl --strict"),
    entry("driver", "check drivers/kazoo/run", "check 'python3 my-lock.py' --lock MyLock"),
    entry("baseline", "add results/quick-1", "check --reference v1.0"),
    entry("report", "results/quick-1", "results/quick-1 results/quick-2 --output both.html"),
    entry("export", "results/quick-1 --junit junit.xml", "results/quick-1 --github"),
    entry("articles", "results/articles", "results/articles --page claims.md"),
];

const PLAN: &[HelpEntry] = &[
    entry(
        "plan",
        "--clients 20 --rate 5/s --hold 100ms --slo 'wait.p99 < 1s' --verify",
        "--from-scenario mine.toml --slo 'wait.p99 < 1s'",
    )
    .short(&[
        ("", "slo verify out quiet"),
        ("Load and servers", "clients rate hold locks from-scenario strategies connect servers"),
    ]),
    entry("learn", "zk1/data zk2/data zk3/data --path /locks", "--connect zk1:2181 --path /locks --for 10m")
        .short(&[
            ("", "path since until anonymous out quiet"),
            ("A running ensemble", "connect for dry-run"),
        ]),
];

const LOOK_UP: &[HelpEntry] = &[
    entry("scenarios", "", "quick > mine.toml"),
    entry("strategies", "", "curator-mutex"),
    entry("faults", "", "partition"),
    entry("validate", "quick", "quick --contenders 500 --duration 1m"),
    entry("schema", "> scenario.schema.json", "run"),
    entry("completions", "bash > zklockbench.bash", "zsh"),
    entry("man", "| man -l -", "--out man"),
    // clap provides this command.
    HelpEntry { command: "help", examples: None, short: &[] },
];

const HOUSEKEEPING: &[HelpEntry] = &[
    entry("ensemble", "up --servers 3", "down"),
    entry("clean", "--connect zk1:2181/bench", "--connect zk1:2181/bench --all"),
];

const GROUPS: [(&str, &[HelpEntry]); 5] = [
    ("Measure", MEASURE),
    ("Compare and judge", COMPARE),
    ("Plan", PLAN),
    ("Look up", LOOK_UP),
    ("Housekeeping", HOUSEKEEPING),
];

/// Shortens an option's help in `-h` to the part before the details.
fn with_brief_help(arg: Arg) -> Arg {
    let whole = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let details = ["; ", ": ", " (", " [default"].iter().filter_map(|begin| whole.find(begin));
    let is_sentence = |at: &usize| whole[at + 2..].starts_with(char::is_uppercase);
    let sentences = whole.match_indices(". ").map(|(at, _)| at).filter(is_sentence);
    match details.chain(sentences).min() {
        Some(end) => arg.help(whole[..end].to_owned()).long_help(whole),
        None => arg,
    }
}

fn entries() -> impl Iterator<Item = &'static HelpEntry> {
    GROUPS.iter().flat_map(|(_, commands)| *commands)
}

pub fn completed(command: Command) -> Command {
    let groups = groups(&command, super::output::width().map_or(WIDTH, usize::from).min(WIDTH));
    let with_examples = |command: Command, entry: &HelpEntry| {
        if entry.examples.is_none() {
            return command;
        }
        let lines: String = entry.examples().map(|line| format!("\n  {line}")).collect();
        let examples = format!("Examples:{lines}");
        command.mut_subcommand(entry.command, |sub| {
            if entry.short.is_empty() {
                return sub.after_help(examples);
            }
            let more = format!("{examples}\n\n`zklockbench {} --help` lists all options.", entry.command);
            entry.shortened(sub).after_help(more).after_long_help(examples)
        })
    };
    entries().fold(command, with_examples).after_help(exit_codes()).help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}\n\n\
         `zklockbench COMMAND --help` prints the options and examples of a command.{{after-help}}"
    ))
}

/// Maximum width of clap's help.
const WIDTH: usize = 100;
/// Width of the column of command names.
const NAMES: usize = 15;

fn groups(command: &Command, width: usize) -> String {
    let mut text = String::new();
    for (title, commands) in &GROUPS {
        let _ = writeln!(text, "{title}:");
        for HelpEntry { command: name, .. } in *commands {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let about = about.unwrap_or_else(|| "Print this message or the help of a command".to_owned());
            text += &zklockbench_report::wrapped(&about, &format!("  {name:<0$}", NAMES - 2), width);
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

fn exit_codes() -> String {
    let lines = Exit::ALL.iter().map(|(exit, meaning)| format!("  {:>3}  {meaning}", *exit as u8));
    format!("Exit codes:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn each_command_is_in_one_group_and_its_examples_parse() {
        let definition = completed(Cli::command());
        for command in definition.get_subcommands() {
            let name = command.get_name();
            assert_eq!(entries().filter(|entry| entry.command == name).count(), 1, "{name}");
        }
        for example in entries().flat_map(|entry| entry.examples()) {
            let typed = example.split(['>', '|']).next().unwrap();
            let parsed = definition.clone().try_get_matches_from(shlex::split(typed).unwrap());
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn short_help_fits_40_lines_of_80_columns_and_lists_only_known_options() {
        for HelpEntry { command, short: groups, .. } in entries().filter(|entry| !entry.short.is_empty()) {
            let mut definition = completed(Cli::command()).term_width(80);
            definition.build();
            let command = definition.find_subcommand_mut(command).unwrap();
            let known: Vec<String> =
                command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
            for option in groups.iter().flat_map(|(_, options)| options.split(' ')) {
                assert!(known.iter().any(|known| known == option), "{option}");
            }
            let help = command.render_help().to_string();
            assert!(help.lines().count() <= 40 && help.contains(" lists all options."), "{help}");
            assert!(command.render_long_help().to_string().lines().count() > 40);
        }
    }

    #[test]
    fn command_summaries_wrap_between_words_and_stay_aligned() {
        let text = groups(&Cli::command(), 60);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        let broken = "\n  sweep        Measure a scenario over a range of\n               contenders, rates,";
        assert!(text.contains(broken), "{text}");
    }
}
