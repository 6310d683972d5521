//! `consign config`: every setting and where it was said.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    config::{Config, DEFAULTS, FILE_NAME, Flags, shown},
    context::{Context, address_of},
    failure::{Exit, Failure},
    output::{Output, Table, count, plain},
};

/// Show, check or print settings.
#[derive(Args, Debug)]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Print every setting with where it was said; secrets are hidden
    Show,
    /// Say whether `serve` would accept the configuration, and if not, all that is wrong
    Check,
    /// Print the defaults with what each means: a file to start from
    PrintDefault,
}

impl ConfigCommand {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.action {
            Action::Show => show(&context.config(Flags::new())?, context.out)?,
            Action::Check => check(&context.config(Flags::new())?, context.out).await?,
            Action::PrintDefault if context.out.is_json() => {
                context.out.json(&json!({"toml": DEFAULTS}))?;
            }
            Action::PrintDefault => context.out.line(DEFAULTS.trim_end())?,
        }
        Ok(Exit::Fine)
    }
}

fn show(config: &Config, out: Output) -> Result<(), Failure> {
    if out.is_json() {
        let item = |(path, entry): (_, &crate::config::Entry)| {
            json!({
                "key": format!("{path}"),
                "value": shown(path, &entry.value),
                "origin": entry.origin,
            })
        };
        let items: Vec<Value> = config.values().map(item).collect();
        let said = json!({"file": config.file, "items": items, "note": config.note});
        return Ok(out.json(&said)?);
    }
    let mut table = Table::new(["setting", "value", "origin"]);
    for (path, entry) in config.values() {
        let value = shown(path, &entry.value).to_string();
        table.row([path.to_string(), plain(&value), entry.origin.to_string()]);
    }
    out.table(&table)?;
    if let Some(note) = &config.note {
        out.note(note)?;
    }
    if config.file.is_none() {
        let note = format!("there is no {FILE_NAME}; `consign config print-default` prints one");
        out.note(note)?;
    }
    Ok(())
}

/// Goes as far as `serve` does before it touches anything.
async fn check(config: &Config, out: Output) -> Result<(), Failure> {
    let address = address_of(config)?;
    crate::service::check(config).await?;
    let queues = config.settings.queues.len() as u64;
    if out.is_json() {
        out.json(&json!({
            "file": config.file, "database": address.to_string(), "queues": queues,
        }))?;
    } else {
        let file = config
            .file
            .as_deref()
            .map(|path| path.display().to_string());
        out.line(format_args!(
            "{}: all is well; {} on {address}",
            file.as_deref().unwrap_or("no file"),
            count(queues, "queue")
        ))?;
    }
    Ok(())
}
