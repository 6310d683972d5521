//! `consign migrate`: the database's schema.

use std::cmp::Ordering;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::{
    context::Context,
    database::{self, Schema, Step},
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
    let before = before?;
    let after = database::status(&address).await?;
    let mut applied = database::steps(&address);
    applied.retain(|step| (before.version + 1..=after.version).contains(&step.version));
    let version = after.version;
    if out.is_json() {
        let applied: Vec<Value> = applied.iter().map(brief).collect();
        return Ok(out.json(&json!({"version": version, "applied": applied}))?);
    }
    for step in applied {
        out.line(format_args!("applied {} {}", step.version, step.name))?;
    }
    Ok(out.line(format_args!("{address} is up to date at version {version}"))?)
}

async fn status(context: &Context) -> Result<(), Failure> {
    let (out, address) = (context.out, context.address()?);
    let Schema { version, needed } = database::status(&address).await?;
    let (applied, pending): (Vec<Step>, Vec<Step>) = database::steps(&address)
        .into_iter()
        .partition(|step| step.version <= version);
    if out.is_json() {
        let brief = |steps: &[Step]| steps.iter().map(brief).collect::<Vec<_>>();
        return Ok(out.json(&json!({
            "version": version,
            "needed": needed,
            "applied": brief(&applied),
            "pending": brief(&pending),
        }))?);
    }
    let mut table = Table::new([">version", "name", "applied"]);
    for step in &applied {
        table.row([step.version.to_string(), step.name.into(), "yes".into()]);
    }
    for step in &pending {
        table.row([step.version.to_string(), step.name.into(), "no".into()]);
    }
    out.table(&table)?;
    let advice = match version.cmp(&needed) {
        Ordering::Less => "run `consign migrate`",
        Ordering::Equal => "nothing to do",
        Ordering::Greater => "use a newer consign with it",
    };
    Ok(out.line(format_args!(
        "{address} is at version {version}, this program needs {needed}: {advice}"
    ))?)
}

fn brief(step: &Step) -> Value {
    json!({"version": step.version, "name": step.name})
}

fn print(context: &Context) -> Result<(), Failure> {
    let (out, address) = (context.out, context.address()?);
    if out.is_json() {
        return Ok(out.json(&json!({"migrations": database::steps(&address)}))?);
    }
    Ok(out.line(database::script(&address).trim_end())?)
}
