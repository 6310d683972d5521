//! SQLite: the default file is created by the first command that writes.

use std::path::Path;

use consign_kernel::{Certainty, Error, Migration, SchemaStatus};
use consign_sqlite::{SqliteOptions, SqliteStore};

use super::{Apps, Database, OnMissing};
use crate::{
    App,
    failure::{Exit, Failure},
    output::Output,
};

pub(super) async fn open(
    path: &Path,
    by_default: Option<OnMissing>,
    apps: &Apps,
    out: Output,
) -> Result<Database, Failure> {
    let mut status = consign_sqlite::status(&options(path, &[])?).await?;
    if by_default == Some(OnMissing::Create) && status.is_empty() {
        let options = options(path, &apps.to_install(&status))?;
        consign_sqlite::migrate(&options).await?;
        out.note(format_args!("created {} in this folder", path.display()))?;
        status = consign_sqlite::status(&options).await?;
    }
    if !path.exists() {
        let remedy = match by_default {
            Some(_) => "`consign serve` and `consign enqueue` create it; --database names another"
                .to_owned(),
            None => {
                let path = path.display();
                format!("`consign migrate --database sqlite:{path}` creates it")
            }
        };
        return Err(missing(format!("file does not exist; {remedy}")));
    }
    let apps = apps.to_open(&status);
    let store = SqliteStore::open(&options(path, &apps)?).await?;
    Ok(Database::sqlite(store, apps))
}

pub(super) async fn migrate(path: &Path, apps: &Apps) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    if let Some(folder) = folder.filter(|folder| !folder.exists()) {
        let message = format!(
            "folder {} does not exist; create it first",
            folder.display()
        );
        return Err(missing(message));
    }
    consign_sqlite::migrate(&install_options(path, apps).await?).await?;
    Ok(())
}

pub(super) async fn status(path: &Path, apps: &Apps) -> Result<SchemaStatus, Error> {
    consign_sqlite::status(&install_options(path, apps).await?).await
}

/// What must be free on the disk: the log grows to 16 MiB before it is copied into the file.
const ROOM_BYTES_MIN: u64 = 16 << 20;

pub(super) fn check_room(path: &Path) -> Result<(), Error> {
    match rustix::fs::statvfs(path) {
        Ok(disk) => has_room(disk.f_bavail.saturating_mul(disk.f_frsize)),
        // The next write returns the error.
        Err(_) => Ok(()),
    }
}

fn has_room(free_bytes: u64) -> Result<(), Error> {
    if free_bytes >= ROOM_BYTES_MIN {
        return Ok(());
    }
    Err(Error::Unavailable {
        attempted: "the disk is full (less than 16 MiB left)",
        certainty: Certainty::Definite,
        source: format!("{free_bytes} bytes are free, {ROOM_BYTES_MIN} are needed").into(),
    })
}

pub(super) fn migrations(path: &Path, apps: &Apps) -> Result<Vec<Migration>, Error> {
    Ok(options(path, &apps.on)?.migrations())
}

/// With the apps that are on, and those that the file has tables of.
async fn install_options(path: &Path, apps: &Apps) -> Result<SqliteOptions, Error> {
    let status = consign_sqlite::status(&options(path, &[])?).await?;
    options(path, &apps.to_install(&status))
}

fn options(path: &Path, apps: &[&'static dyn App]) -> Result<SqliteOptions, Error> {
    let text = path
        .to_str()
        .ok_or_else(|| Error::invalid("the path of a database", "must be UTF-8"))?;
    let options = SqliteOptions::new(text)?;
    let add = |options: SqliteOptions, app: &&'static dyn App| options.component(app.sqlite());
    Ok(apps.iter().fold(options, add))
}

fn missing(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Unavailable, "database_unavailable", message)
}

/// For reading: a SQLite file is migrated by this program, never by hand.
pub(super) fn script(path: &Path, apps: &Apps) -> Result<String, Error> {
    let text = |migration: &Migration| {
        let Migration {
            component,
            version,
            name,
            sql,
            ..
        } = migration;
        format!("-- Migration {version} of {component}: {name}\n\n{sql}\n")
    };
    Ok(migrations(path, apps)?.iter().map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_a_disk_without_room_for_the_log() {
        has_room(ROOM_BYTES_MIN).unwrap();
        let error = has_room(ROOM_BYTES_MIN - 1).unwrap_err();
        assert!(error.to_string().contains("the disk is full"), "{error}");
    }
}
