//! The command line: options for all commands, and messages on one line.

use std::ffi::OsString;
use std::io::{self, IsTerminal};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use lock_core::Label;

use crate::run::{Programs, RunArgs};
use crate::tell::tell;
use crate::view::{OUTPUT, Site, USAGE, View};

/// Distributed locks on the command line
#[derive(Debug, Parser)]
#[command(name = "dlock", version, about, disable_help_subcommand = true)]
struct Cli<C: Subcommand = Commands> {
    /// The URL of the store, for example redis://host:6379, postgres://user@host/database, etcd://a,b,c or
    /// redlock+redis://a,b,c. Of a quorum of several kinds: redlock: and the URLs of its nodes, with spaces between
    /// them
    #[arg(long, global = true, env = "LOCK_URL", hide_env_values = true)]
    url: Option<String>,
    /// The label of this client, which other clients see; by default dlock@host:pid
    #[arg(long, global = true, value_parser = label)]
    label: Option<Label>,
    /// The use of colors; NO_COLOR in the environment switches colors off
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Color,
    #[command(subcommand)]
    command: C,
}

#[derive(Debug, Subcommand)]
enum Commands {
    #[command(flatten)]
    Run(Programs),
    #[command(flatten)]
    View(View),
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the man page, of one command or of all
    Man {
        /// The command, for example run, or bench load
        command: Vec<String>,
    },
}

/// The one command whose start has to be quick. The parser of all commands takes longer to build.
#[derive(Debug, Subcommand)]
enum Quick {
    Run(RunArgs),
}

/// A command over a store.
pub(crate) enum Command {
    Run(Programs),
    View(View),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

fn label(text: &str) -> Result<Label, String> {
    Label::new(text).map_err(|error| error.to_string())
}

/// What the command line asks for.
#[allow(clippy::large_enum_variant, reason = "there is one")]
pub(crate) enum Parsed {
    Command(Site, Command),
    /// There is nothing more to do: the output is written.
    Ended(u8),
}

impl From<Cli<Quick>> for Cli {
    fn from(cli: Cli<Quick>) -> Self {
        let Cli { url, label, color, command: Quick::Run(args) } = cli;
        Self { url, label, color, command: Commands::Run(Programs::Run(args)) }
    }
}

/// Reads the command line. The parser of all commands says what is wrong with it.
fn read(args: &[OsString]) -> Result<Cli, clap::Error> {
    if args.iter().any(|arg| arg == "run")
        && let Ok(cli) = Cli::<Quick>::try_parse_from(args)
    {
        return Ok(cli.into());
    }
    Cli::try_parse_from(args)
}

/// The parser of all commands.
fn all() -> clap::Command {
    Cli::<Commands>::command()
}

pub(crate) fn parse() -> Parsed {
    let args: Vec<_> = std::env::args_os().collect();
    let cli = match read(&args) {
        Ok(cli) => cli,
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            _ = error.print();
            return Parsed::Ended(0);
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            _ = error.print();
            return Parsed::Ended(USAGE);
        }
        Err(error) => return mistake(&one_line(&error.render().to_string())),
    };
    let command = match cli.command {
        Commands::Run(command) => Command::Run(command),
        Commands::View(command) => Command::View(command),
        Commands::Completions { shell } => {
            clap_complete::generate(shell, &mut all(), "dlock", &mut io::stdout());
            return Parsed::Ended(0);
        }
        Commands::Man { command } => return manual(&command),
    };
    let Some(url) = cli.url else {
        return mistake(
            "no store is named: use --url or LOCK_URL, for example redis://127.0.0.1:6379",
        );
    };
    let is_terminal = io::stdout().is_terminal();
    let wants_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let has_colors = match cli.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => is_terminal && !wants_none,
    };
    let label = cli.label.unwrap_or_else(Label::of_process);
    Parsed::Command(Site { url, label, has_colors, is_terminal }, command)
}

fn manual(command: &[String]) -> Parsed {
    let mut of = all();
    // That gives each command its whole name.
    of.build();
    for name in command {
        let Some(found) = of.find_subcommand(name) else {
            return mistake(&format!("there is no command {name}: see dlock --help"));
        };
        of = found.clone();
    }
    match clap_mangen::Man::new(of).render(&mut io::stdout()) {
        Ok(()) => Parsed::Ended(0),
        Err(error) => {
            tell(error);
            Parsed::Ended(OUTPUT)
        }
    }
}

fn mistake(what: &str) -> Parsed {
    tell(what);
    Parsed::Ended(USAGE)
}

/// The message of the parser, with its hints and without the general part, on one line.
fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim);
    let lines =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let line = lines.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        all().debug_assert();
        Cli::<Quick>::command().debug_assert();
    }

    fn of_all(args: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(args)
    }

    #[test]
    fn the_quick_parser_and_the_parser_of_all_commands_agree() {
        let agree = |line: &str| {
            let args: Vec<_> = line.split(' ').collect();
            let owned: Vec<_> = args.iter().map(OsString::from).collect();
            let result = |cli: Result<Cli, clap::Error>| {
                cli.map(|cli| format!("{cli:?}")).map_err(|error| error.to_string())
            };
            assert_eq!(result(read(&owned)), result(of_all(&args)), "{line}");
        };
        agree("dlock --url a run --name b -- true");
        agree(
            "dlock run --color never b --url a --label c --try --ttl 9s --on-lost warn -- d -e --url",
        );
        agree("dlock run --semaphore b --permits 3 --timeout 5 --grace 1s --busy-code 7 -- run");
        agree("dlock --url a inspect run");
        agree("dlock elect b -- run");
        for wrong in
            ["", " b", " b true", " b --ttl 1 -- c", " b --prmits 3 -- c", " --help", " -V"]
        {
            agree(&format!("dlock run{wrong}"));
        }
        agree("dlock -V run b -- c");
    }

    #[test]
    fn a_message_is_one_line_with_its_hints() {
        let of = |args: &[&str]| one_line(&of_all(args).unwrap_err().render().to_string());
        let lacks = of(&["dlock", "inspect"]);
        assert_eq!(lacks, "the following required arguments were not provided: <NAME>");
        let typo = of(&["dlock", "lst"]);
        assert!(typo.starts_with("unrecognized subcommand 'lst' tip: "), "{typo}");
    }
}
