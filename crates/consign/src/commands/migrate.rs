//! `consign migrate`: the database's schema.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use consign_kernel::{Error, Migration, SchemaStatus};
use serde_json::{Value, json};

use crate::{
    context::Context,
    database,
    failure::{Exit, Failure},
    output::Table,
};

/// Bring the database to this program's schema, or look at it.
#[derive(Args, Debug)]
pub(crate) struct Migrate {
    /// What to do
    #[arg(value_enum, default_value_t = Action::Up)]
    action: Action,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Action {
    /// Apply what is missing
    Up,
    /// Say which version the database has and which this program needs
    Status,
    /// Print the SQL, for people who want to read it first
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
    let (out, address) = (context.out, context.address()?);
    let before = database::status(&address).await;
    // A login that may not even look is told what it takes to migrate.
    database::migrate(&address).await?;
    let applied = before?.pending();
    let after = database::status(&address).await?;
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
    let (out, address) = (context.out, context.address()?);
    let status = database::status(&address).await?;
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
    let (out, address) = (context.out, context.address()?);
    if out.is_json() {
        let with_sql = |migration: &Migration| {
            let mut written = brief(migration);
            written["sql"] = json!(migration.sql);
            written
        };
        let migrations = database::migrations(&address)?;
        let migrations: Vec<Value> = migrations.iter().map(with_sql).collect();
        return Ok(out.json(&json!({"migrations": migrations}))?);
    }
    Ok(out.line(database::script(&address)?.trim_end())?)
}
