//! The commands by purpose, as the help lists them.

use clap::{Command, builder::Styles};
use consign_app::Registry;

/// The groups in their order, each with its commands. Commands of apps have a group of their own.
pub(super) const GROUPS: [(&str, &[&str]); 4] = [
    ("Run", &["serve", "work", "enqueue", "demo"]),
    (
        "Look",
        &[
            "ls", "tail", "show", "explain", "dead", "queues", "problems", "leases", "doctor",
        ],
    ),
    (
        "Operate",
        &[
            "requeue",
            "redrive",
            "hold",
            "unhold",
            "resolve",
            "discard",
            "cancel",
            "skip",
            "pause",
            "resume",
            "schedules",
            "erase",
            "retention",
        ],
    ),
    (
        "Set up",
        &["migrate", "config", "token", "completions", "man"],
    ),
];

/// The command with help that lists its commands by purpose.
pub(super) fn grouped(command: Command, registry: &Registry) -> Command {
    let apps: Vec<String> = registry
        .apps
        .iter()
        .flat_map(|app| app.commands())
        .map(|it| it.get_name().to_owned())
        .collect();
    let mut groups: Vec<(&str, Vec<&str>)> = GROUPS
        .iter()
        .map(|(title, names)| (*title, names.to_vec()))
        .collect();
    if !apps.is_empty() {
        groups.push(("Apps", apps.iter().map(String::as_str).collect()));
    }
    let header = *Styles::styled().get_header();
    let literal = *Styles::styled().get_literal();
    let longest = command.get_subcommands().map(|it| it.get_name().len());
    let width = longest.max().unwrap_or_default();
    let mut list = String::new();
    for (title, names) in groups {
        list.push_str(&format!("{header}{title}:{header:#}\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let line = format!("  {literal}{name:<width$}{literal:#}  {about}\n");
            list.push_str(&line);
        }
        list.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}
