//! `consign config`: every setting and its origin.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    config::{Catalogue, Config, FILE_NAME, Flags, Settings, default_file, shown},
    context::Context,
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
    /// Print every setting and its origin; secrets are hidden
    Show,
    /// Check the configuration as `serve` does and print every problem
    Check,
    /// Print every setting with its default and meaning: a file to start from
    PrintDefault,
}

impl ConfigCommand {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.action {
            Action::Show => show(&context.config(Flags::new())?, context.out)?,
            Action::Check => check(&context.config(Flags::new())?, context.out).await?,
            Action::PrintDefault if context.out.is_json() => {
                context
                    .out
                    .json(&json!({"toml": default_file(context.sources().registry)}))?;
            }
            Action::PrintDefault => context
                .out
                .line(default_file(context.sources().registry).trim_end())?,
        }
        Ok(Exit::Fine)
    }
}

fn show(config: &Config, out: Output) -> Result<(), Failure> {
    if out.is_json() {
        let item = |(path, entry): (_, &crate::config::Entry)| {
            json!({
                "key": format!("{path}"),
                "value": shown(Catalogue(config.registry()), path, &entry.value),
                "origin": entry.origin,
            })
        };
        let items: Vec<Value> = config.values().map(item).collect();
        let document = json!({"file": config.file, "items": items, "notes": config.notes});
        return Ok(out.json(&document)?);
    }
    let mut table = Table::new(["setting", "value", "origin"]);
    for (path, entry) in config.values() {
        let value = shown(Catalogue(config.registry()), path, &entry.value).to_string();
        table.row([path.to_string(), plain(&value), entry.origin.to_string()]);
    }
    out.table(&table)?;
    for note in &config.notes {
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
    let address = config.address()?;
    let settings = Settings::of(config)?;
    crate::service::check(config, &settings).await?;
    let queues = settings.queues.len() as u64;
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
