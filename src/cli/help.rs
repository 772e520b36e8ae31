//! What `--help` shows beside the options: the commands in groups, and examples of each.

use std::fmt::Write as _;

use clap::Command;

use crate::words::error::Exit;

struct Group {
    title: &'static str,
    commands: &'static [HelpEntry],
}

/// A command, and what a user types for it.
struct HelpEntry {
    command: &'static str,
    /// `help` itself is clap's own and has none.
    examples: Option<[&'static str; 2]>,
}

const fn entry(command: &'static str, examples: [&'static str; 2]) -> HelpEntry {
    HelpEntry { command, examples: Some(examples) }
}

const GROUPS: [Group; 5] = [
    Group {
        title: "Measure",
        commands: &[
            entry(
                "run",
                [
                    "zklockbench run quick --contenders 20 --set hold=100ms",
                    "zklockbench run mine.toml --connect zk1:2181,zk2:2181/bench --gate 'wait.p99 < 50ms'",
                ],
            ),
            entry(
                "ab",
                [
                    "zklockbench ab quick --a 'strategies=[\"predecessor-watch\"]' --b 'strategies=[\"baton\"]'",
                    "zklockbench ab quick --a-zookeeper-home zookeeper-3.8 --b-zookeeper-home zookeeper-3.9",
                ],
            ),
            entry(
                "sweep",
                [
                    "zklockbench sweep quick --over contenders=1..200",
                    "zklockbench sweep open-loop --over rate=10..200 --objective 'wait.p99 < 100ms'",
                ],
            ),
            entry(
                "calibrate",
                [
                    "zklockbench calibrate --quick",
                    "zklockbench calibrate --connect zk1:2181,zk2:2181/bench --budget 2m",
                ],
            ),
            entry("torture", ["zklockbench torture --minutes 10", "zklockbench torture --seed 7 --show"]),
            entry(
                "worker",
                [
                    "zklockbench worker quick --connect zk1:2181/bench --run-id job-7 --index 0 --of 4",
                    "zklockbench worker --follow job-7 --connect zk1:2181/bench",
                ],
            ),
            entry(
                "merge",
                [
                    "zklockbench merge results/job-7",
                    "zklockbench merge results/job-7 --baseline baselines --junit junit.xml",
                ],
            ),
        ],
    },
    Group {
        title: "Compare and judge",
        commands: &[
            entry(
                "compare",
                [
                    "zklockbench compare results/before results/after",
                    "zklockbench compare results/before --power 5%",
                ],
            ),
            entry("check", ["zklockbench check results/quick-1", "zklockbench check history.jsonl --strict"]),
            entry(
                "driver",
                [
                    "zklockbench driver check drivers/kazoo/run",
                    "zklockbench driver check 'python3 my-lock.py' --lock MyLock",
                ],
            ),
            entry(
                "baseline",
                ["zklockbench baseline add results/quick-1", "zklockbench baseline trend --figure wait.p99"],
            ),
            entry(
                "report",
                [
                    "zklockbench report results/quick-1",
                    "zklockbench report results/quick-1 results/quick-2 --output both.html",
                ],
            ),
            entry(
                "export",
                [
                    "zklockbench export results/quick-1 --junit junit.xml",
                    "zklockbench export results/quick-1 --github",
                ],
            ),
            entry(
                "articles",
                [
                    "zklockbench articles results/articles",
                    "zklockbench articles results/articles --page claims.md",
                ],
            ),
        ],
    },
    Group {
        title: "Plan",
        commands: &[entry(
            "plan",
            [
                "zklockbench plan --clients 20 --rate 5/s --hold 100ms --slo 'wait.p99 < 1s' --verify",
                "zklockbench plan --from-scenario mine.toml --slo 'wait.p99 < 1s'",
            ],
        )],
    },
    Group {
        title: "Look up",
        commands: &[
            entry("scenarios", ["zklockbench scenarios", "zklockbench scenarios quick > mine.toml"]),
            entry("strategies", ["zklockbench strategies", "zklockbench strategies curator-mutex"]),
            entry("faults", ["zklockbench faults", "zklockbench faults partition"]),
            entry(
                "validate",
                ["zklockbench validate quick", "zklockbench validate quick --contenders 500 --duration 1m"],
            ),
            entry("schema", ["zklockbench schema > scenario.schema.json", "zklockbench schema run"]),
            entry(
                "completions",
                ["zklockbench completions bash > zklockbench.bash", "zklockbench completions zsh"],
            ),
            entry("man", ["zklockbench man | man -l -", "zklockbench man --out man"]),
            HelpEntry { command: "help", examples: None },
        ],
    },
    Group {
        title: "Housekeeping",
        commands: &[
            entry("ensemble", ["zklockbench ensemble up --servers 3", "zklockbench ensemble down"]),
            entry(
                "clean",
                [
                    "zklockbench clean --connect zk1:2181/bench",
                    "zklockbench clean --connect zk1:2181/bench --all",
                ],
            ),
        ],
    },
];

fn entries() -> impl Iterator<Item = &'static HelpEntry> {
    GROUPS.iter().flat_map(|group| group.commands)
}

/// The definition with groups, examples and exit codes.
pub fn completed(command: Command) -> Command {
    let groups = groups(&command, super::output::width().map_or(WIDTH, usize::from).min(WIDTH));
    let with_examples = |command: Command, entry: &HelpEntry| {
        let Some(examples) = entry.examples else { return command };
        let lines = examples.map(|line| format!("\n  {line}")).concat();
        command.mut_subcommand(entry.command, |sub| sub.after_help(format!("Examples:{lines}")))
    };
    entries().fold(command, with_examples).after_help(exit_codes()).help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}\n\n\
         `zklockbench COMMAND --help` has its options and examples.{{after-help}}"
    ))
}

/// As wide as clap makes help at most.
const WIDTH: usize = 100;
/// Of the column with the commands' names.
const NAMES: usize = 15;

fn groups(command: &Command, width: usize) -> String {
    let mut text = String::new();
    for group in &GROUPS {
        let _ = writeln!(text, "{}:", group.title);
        for HelpEntry { command: name, .. } in group.commands {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let about = about.unwrap_or_else(|| "Print this message or the help of a command".to_owned());
            let _ = write!(text, "  {name:<0$}", NAMES - 2);
            let mut at = NAMES;
            for word in about.split(' ') {
                let long = word.chars().count();
                if at > NAMES && at + 1 + long > width {
                    let _ = write!(text, "\n{:NAMES$}", "");
                    at = NAMES;
                }
                let space = if at > NAMES { " " } else { "" };
                let _ = write!(text, "{space}{word}");
                at += space.len() + long;
            }
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
    fn every_command_is_in_one_group_and_its_examples_are_understood() {
        let definition = completed(Cli::command());
        for command in definition.get_subcommands() {
            let name = command.get_name();
            assert_eq!(entries().filter(|entry| entry.command == name).count(), 1, "{name}");
        }
        for example in entries().filter_map(|entry| entry.examples).flatten() {
            let typed = example.split(['>', '|']).next().unwrap();
            let parsed = definition.clone().try_get_matches_from(shlex::split(typed).unwrap());
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn a_command_s_line_is_broken_between_words_below_its_beginning() {
        let text = groups(&Cli::command(), 60);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        let broken = "\n  sweep        Measure a scenario over a range of\n               contenders, rates,";
        assert!(text.contains(broken), "{text}");
    }
}
