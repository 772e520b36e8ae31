//! `completions`, `man`, `schema`: texts that are made from the definitions of the command line and of scenario files.

use clap_complete::Shell;
use clap_mangen::Man;

use super::args::{CompletionsArgs, ManArgs, SchemaArgs, SchemaOf};
use super::scenario_source::SHIPPED;
use super::{answers, output};
use crate::answer::ab;
use crate::answer::compare;
use crate::answer::plan;
use crate::answer::sweep;
use crate::scenario::nearest;
use crate::words::error::{Error, Exit};
use crate::world::driver::protocol;
use crate::world::fault;
use crate::{lock, report, results, scenario};

/// Prints a script that completes commands, options, names and files in a shell.
pub fn completions(args: &CompletionsArgs) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::definition(), "zklockbench", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if args.shell == Shell::Bash {
        let names: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
        script += &BASH_FILES.replace("NAMES", &names.join(" "));
    }
    output::data(&script)?;
    Ok(Exit::Held)
}

/// The generated script for bash offers placeholders where a file is due: files and built-in scenarios instead.
const BASH_FILES: &str = r#"
_zklockbench_files() {
    _zklockbench "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}" reply=() word
    for word in "${COMPREPLY[@]}"; do [[ $word == [\<\[]* ]] || reply+=("$word"); done
    COMPREPLY=("${reply[@]}")
    [[ $COMP_CWORD -gt 1 && $cur != -* ]] || return 0
    case ${COMP_WORDS[1]} in
        run|validate|ab) COMPREPLY+=($(compgen -W "NAMES" -- "$cur") $(compgen -f -- "$cur")) ;;
        check|export|compare|baseline|articles|report|sweep|plan) COMPREPLY+=($(compgen -f -- "$cur")) ;;
    esac
}
complete -F _zklockbench_files -o nosort -o filenames -o bashdefault -o default zklockbench
"#;

const VARIABLES: [(&str, &str); 9] = [
    ("ZOOKEEPER_HOME", "Directory of an unpacked ZooKeeper release, unless --zookeeper-home names one."),
    ("ZKLOCKBENCH_AUTH", "Digest identity, as --auth takes it: USER:PASSWORD."),
    (
        "ZKLOCKBENCH_COLD, ZKLOCKBENCH_NO_FLOOR, ZKLOCKBENCH_NO_CHARTS",
        "Set to 1: same as --cold, --no-floor and --no-charts.",
    ),
    (
        "ZKLOCKBENCH_STATE_DIR",
        "Where `ensemble up` remembers what it started, and `scripts/install --zookeeper` keeps a release.",
    ),
    (
        "ZKLOCKBENCH_LOG",
        "Log of the ZooKeeper client on stderr: a level such as debug, or targets such as zookeeper_client=trace.",
    ),
    ("ZKLOCKBENCH_DRIVERS", "Drivers as --driver names them, one on each line."),
    ("SSL_CERT_FILE", "Certificate authorities for --tls without --tls-ca."),
    ("GITHUB_STEP_SUMMARY", "Where --github appends its summary; GitHub sets it."),
    ("NO_COLOR", "Set to anything: no colours."),
];

/// Prints the manual page: the program, each of its commands and their commands, and environment variables. Or only a
/// command's; or writes one for each.
pub fn man(args: &ManArgs) -> Result<Exit, Error> {
    let failed = |error: std::io::Error| Error::environment(format!("cannot write the page: {error}"));
    match (&args.command, &args.out) {
        (_, Some(directory)) => {
            std::fs::create_dir_all(directory).map_err(Error::cannot("create", directory))?;
            clap_mangen::generate_to(super::definition(), directory).map_err(failed)?;
        }
        (Some(name), None) => output::data(&page_of(name)?.map_err(failed)?)?,
        (None, None) => output::data(&page().map_err(failed)?)?,
    }
    Ok(Exit::Held)
}

fn page_of(name: &str) -> Result<std::io::Result<String>, Error> {
    let mut definition = super::definition();
    definition.build();
    let command = definition.find_subcommand(name).ok_or_else(|| {
        let names = definition.get_subcommands().map(clap::Command::get_name);
        let help = nearest(name, names).map_or_else(
            || "`zklockbench --help` lists them".to_owned(),
            |nearest| format!("did you mean `{nearest}`?"),
        );
        Error::usage(format!("there is no command `{name}`; {help}"))
    })?;
    let mut page = Vec::new();
    let rendered = Man::new(command.clone()).render(&mut page);
    Ok(rendered.map(|()| String::from_utf8_lossy(&page).into_owned()))
}

fn page() -> std::io::Result<String> {
    let mut command = super::definition();
    command.build();
    let mut page = Vec::new();
    let whole = Man::new(command.clone());
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    whole.render_synopsis_section(&mut page)?;
    whole.render_description_section(&mut page)?;
    whole.render_subcommands_section(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    of_commands(&command, &mut page)?;
    page += ".SH ENVIRONMENT\n";
    for (name, meaning) in VARIABLES {
        page += &format!(".TP\n\\fB{name}\\fR\n{}\n", meaning.replace('-', "\\-"));
    }
    page += ".SH \"EXIT STATUS\"\n";
    for (exit, meaning) in Exit::ALL {
        page += &format!(".TP\n\\fB{}\\fR\n{meaning}\n", exit as u8);
    }
    Ok(page)
}

/// A section for each command, and for each of its own.
fn of_commands(command: &clap::Command, page: &mut String) -> std::io::Result<()> {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = sub.get_bin_name().unwrap_or(sub.get_name()).to_uppercase();
        let mut section = Vec::new();
        let man = Man::new(sub.clone());
        man.render_description_section(&mut section)?;
        man.render_synopsis_section(&mut section)?;
        man.render_options_section(&mut section)?;
        *page += &format!(".SH \"{name}\"\n");
        // Its parts are sections of that section.
        *page += &String::from_utf8_lossy(&section).replace(".SH DESCRIPTION\n", "").replace(".SH ", ".SS ");
        of_commands(sub, page)?;
    }
    Ok(())
}

/// Prints the JSON Schema of scenario files, or those of the files of a run, of its summary or of a calibration.
pub fn schema(args: &SchemaArgs) -> Result<Exit, Error> {
    match args.of {
        SchemaOf::Scenario => output::json(&scenario::schema(&lock::cards(), &fault::cards()))?,
        SchemaOf::Answer => output::json(&answers::schema())?,
        SchemaOf::Comparison => output::json(&compare::comparison_schema())?,
        SchemaOf::Calibration => output::json(&results::calibration_schema())?,
        SchemaOf::Run => output::json(&serde_json::Map::from_iter(
            results::schemas().map(|(file, schema)| (file.to_owned(), schema.to_value())),
        ))?,
        SchemaOf::Ab => output::json(ab::schema().as_value())?,
        SchemaOf::Sweep => output::json(sweep::schema().as_value())?,
        SchemaOf::Plan => output::json(plan::schema().as_value())?,
        SchemaOf::Summary => output::json(report::summary::schema().as_value())?,
        SchemaOf::Driver => output::json(&protocol::schemas())?,
    }
    Ok(Exit::Held)
}
