//! `consign migrate`: the database's schema.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use consign_kernel::{Error, Migration, SchemaStatus};
use serde_json::{Value, json};

use crate::{
    config::Flags,
    context::Context,
    database::{self, Apps},
    failure::{Exit, Failure},
    output::Table,
    progress::Progress,
};

/// Migrate the database to this program's schema, or show its version.
#[derive(Args, Debug)]
pub(crate) struct Migrate {
    /// What to do
    #[arg(value_enum, default_value_t = Action::Up)]
    action: Action,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Action {
    /// Apply the missing migrations
    Up,
    /// Print the version of the database and the one this program needs
    Status,
    /// Print the SQL without running it
    Print,
}

impl Migrate {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.action {
            Action::Up => up(context).await?,
            Action::Status => status(context).await?,
            Action::Print => print(context)?,
        }
        Ok(Exit::Fine)
    }
}

async fn up(context: &Context) -> Result<(), Failure> {
    let config = context.config(Flags::new())?;
    let (out, address, apps) = (context.out, config.address()?, Apps::of(&config));
    let progress = Progress::busy("migrating", out.is_json());
    let before = database::status(&address, &apps).await;
    // The error for a login without rights names what a migration needs.
    database::migrate(&address, &apps).await?;
    let applied = before?.pending();
    let after = database::status(&address, &apps).await?;
    progress.clear();
    if out.is_json() {
        let applied: Vec<Value> = applied.iter().map(brief).collect();
        let answer = json!({"versions": versions(&after), "applied": applied});
        return Ok(out.json(&answer)?);
    }
    for steps in applied.chunk_by(|a, b| a.component == b.component) {
        if let ([first, ..], [.., last]) = (steps, steps) {
            let (from, to) = (first.version, last.version);
            out.line(format_args!("applied {} {from} to {to}", first.component))?;
        }
    }
    let versions = written(&versions(&after));
    Ok(out.line(format_args!("{address} is up to date: {versions}"))?)
}

async fn status(context: &Context) -> Result<(), Failure> {
    let config = context.config(Flags::new())?;
    let (out, address, apps) = (context.out, config.address()?, Apps::of(&config));
    let status = database::status(&address, &apps).await?;
    let (found, needed) = (versions(&status), status.needed());
    let pending = status.pending();
    let is_applied = |migration: &&Migration| !pending.contains(migration);
    let applied: Vec<&Migration> = status.known.iter().filter(is_applied).collect();
    if out.is_json() {
        return Ok(out.json(&json!({
            "versions": found,
            "needed": needed,
            "applied": applied.iter().copied().map(brief).collect::<Vec<_>>(),
            "pending": pending.iter().map(brief).collect::<Vec<_>>(),
        }))?);
    }
    let mut table = Table::new(["component", ">version", "name", "applied"]);
    for migration in &status.known {
        let is_applied = if applied.contains(&migration) {
            "yes"
        } else {
            "no"
        };
        table.row([
            migration.component.into(),
            migration.version.to_string(),
            migration.name.into(),
            is_applied.into(),
        ]);
    }
    out.table(&table)?;
    let advice = match status.check() {
        Ok(()) => "nothing to do".to_owned(),
        Err(Error::Schema { remedy, .. }) => remedy.to_owned(),
        Err(error) => error.to_string(),
    };
    Ok(out.line(format_args!("{address}: {}; {advice}", written(&found)))?)
}

/// The version of each component that this program has.
fn versions(status: &SchemaStatus) -> BTreeMap<&'static str, i64> {
    let components = status.needed().into_keys();
    components
        .map(|component| (component, status.version(component)))
        .collect()
}

fn written(versions: &BTreeMap<&'static str, i64>) -> String {
    let written = versions
        .iter()
        .map(|(component, version)| format!("{component} {version}"));
    written.collect::<Vec<_>>().join(", ")
}

fn brief(migration: &Migration) -> Value {
    let Migration {
        component,
        version,
        name,
        ..
    } = migration;
    json!({"component": component, "version": version, "name": name})
}

fn print(context: &Context) -> Result<(), Failure> {
    let config = context.config(Flags::new())?;
    let (out, address, apps) = (context.out, config.address()?, Apps::of(&config));
    if out.is_json() {
        let with_sql = |migration: &Migration| {
            let mut written = brief(migration);
            written["sql"] = json!(migration.sql);
            written
        };
        let migrations = database::migrations(&address, &apps)?;
        let migrations: Vec<Value> = migrations.iter().map(with_sql).collect();
        return Ok(out.json(&json!({"migrations": migrations}))?);
    }
    Ok(out.line(database::script(&address, &apps)?.trim_end())?)
}
