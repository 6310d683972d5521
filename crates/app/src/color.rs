//! Colours on a terminal: of states, of errors, of headings.

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal as _},
};

/// When to print colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal; never with `NO_COLOR`, always with `CLICOLOR_FORCE`.
    #[default]
    Auto,
    /// Also into files and pipes.
    Always,
    /// Nowhere.
    Never,
}

/// Where colours are printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Colors {
    /// On standard output.
    pub stdout: bool,
    /// On standard error.
    pub stderr: bool,
}

/// What is painted, by what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Done.
    Good,
    /// Needs an operator.
    Bad,
    /// Not as hoped, and going on.
    Doubt,
    /// Under way.
    Busy,
    /// A heading.
    Heading,
}

impl ColorChoice {
    /// What the choice means for this process.
    pub fn colors(self) -> Colors {
        let on = |is_terminal| self.is_on(is_terminal, |name| env::var_os(name));
        Colors {
            stdout: on(io::stdout().is_terminal()),
            stderr: on(io::stderr().is_terminal()),
        }
    }

    fn is_on(self, is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
        let set = |name: &str| variable(name).filter(|text| !text.is_empty());
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto if set("NO_COLOR").is_some() => false,
            Self::Auto if set("CLICOLOR_FORCE").is_some_and(|text| text != "0") => true,
            Self::Auto => is_terminal && set("TERM").is_none_or(|text| text != "dumb"),
        }
    }
}

impl Paint {
    /// The paint of a state or an outcome; none for a word that is neither.
    pub fn of_word(word: &str) -> Option<Self> {
        let first = word.split(',').next().unwrap_or(word);
        match first {
            "delivered" | "done" => Some(Self::Good),
            "dead" => Some(Self::Bad),
            "held" | "retry" | "uncertain" | "expired" | "stopped" => Some(Self::Doubt),
            "leased" | "running" => Some(Self::Busy),
            _ => None,
        }
    }

    /// The text between the codes that switch the colour on and off.
    pub fn on(self, text: &str) -> String {
        let code = match self {
            Self::Good => "32",
            Self::Bad => "31",
            Self::Doubt => "33",
            Self::Busy => "36",
            Self::Heading => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_the_flag_then_the_variables_then_the_terminal() {
        let none: &[(&str, &str)] = &[];
        for (choice, is_terminal, variables, expected) in [
            (ColorChoice::Auto, true, none, true),
            (ColorChoice::Auto, false, none, false),
            (ColorChoice::Auto, true, &[("NO_COLOR", "1")], false),
            (ColorChoice::Auto, true, &[("NO_COLOR", "")], true),
            (ColorChoice::Auto, false, &[("CLICOLOR_FORCE", "1")], true),
            (ColorChoice::Auto, false, &[("CLICOLOR_FORCE", "0")], false),
            (
                ColorChoice::Auto,
                true,
                &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")],
                false,
            ),
            (ColorChoice::Auto, true, &[("TERM", "dumb")], false),
            (ColorChoice::Always, false, &[("NO_COLOR", "1")], true),
            (ColorChoice::Never, true, &[("CLICOLOR_FORCE", "1")], false),
        ] {
            let variable = |name: &str| {
                let found = variables.iter().find(|(own, _)| *own == name);
                found.map(|(_, text)| OsString::from(text))
            };
            let actual = choice.is_on(is_terminal, variable);
            assert_eq!(actual, expected, "{choice:?} {is_terminal} {variables:?}");
        }
    }
}
