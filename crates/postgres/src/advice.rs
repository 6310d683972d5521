//! Adds to an error of the database what an operator needs to act: the queue with a similar name, the role that a
//! login is missing.

use consign_kernel::{Error, nearest};
use sqlx::{PgConnection, postgres::PgRow};

use crate::{PostgresStore, pools::Use, rows};

const ROLES: &str = include_str!("../sql/roles_for.sql");

/// How many roles are named: with the schema itself, all of them would do, those of apps too.
const ROLES_NAMED_MAX: usize = 4;

impl PostgresStore {
    /// The same error with what to do about it, as far as the database provides it.
    pub(crate) async fn advised(&self, error: Error) -> Error {
        match error {
            Error::UnknownQueue {
                queue,
                suggestion: None,
            } => self.with_suggestion(queue).await,
            Error::Forbidden { what } => {
                let roles = self
                    .rows(Use::Request, sqlx::query(ROLES).bind(object(&what)))
                    .await;
                with_roles(what, &roles.unwrap_or_default())
            }
            error => error,
        }
    }

    /// Adds the nearest known name to an unknown queue, where this role may read queues at all.
    async fn with_suggestion(&self, queue: String) -> Error {
        let known = self
            .rows(
                Use::Request,
                sqlx::query("SELECT name FROM consign.queue WHERE policy IS NOT NULL LIMIT 1000"),
            )
            .await;
        let names: Vec<String> = known
            .unwrap_or_default()
            .iter()
            .filter_map(|row| rows::column(row, "name").ok())
            .collect();
        let suggestion = nearest(&queue, names.iter().map(String::as_str)).map(str::to_owned);
        Error::UnknownQueue { queue, suggestion }
    }
}

/// The same on a connection outside of any transaction.
pub(crate) async fn advised(connection: &mut PgConnection, error: Error) -> Error {
    let Error::Forbidden { what } = error else {
        return error;
    };
    let statement = sqlx::query(ROLES).persistent(false).bind(object(&what));
    let roles = statement.fetch_all(connection).await;
    with_roles(what, &roles.unwrap_or_default())
}

/// What a refusal is about. The server names it last, in every language.
fn object(what: &str) -> String {
    let is_quote = |c: char| !c.is_alphanumeric() && c != '_';
    let mut words = what
        .split_whitespace()
        .map(|word| word.trim_matches(is_quote));
    words
        .rfind(|word| !word.is_empty())
        .unwrap_or_default()
        .to_owned()
}

fn with_roles(what: String, rows: &[PgRow]) -> Error {
    let text = |row, name| rows::column::<String>(row, name).unwrap_or_default();
    let all = rows.iter().map(|row| text(row, "role"));
    let roles: Vec<String> = all.take(ROLES_NAMED_MAX).collect();
    let what = match (rows.first(), &roles[..]) {
        (Some(row), [role]) => {
            let login = text(row, "login");
            format!("{what}; login {login} needs the role {role}: GRANT {role} TO {login}")
        }
        (Some(row), [role, ..]) => {
            let (login, all) = (text(row, "login"), roles.join(", "));
            format!(
                "{what}; login {login} needs one of the roles {all}, as in GRANT {role} TO {login}"
            )
        }
        _ => what,
    };
    Error::Forbidden { what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_object_in_every_language() {
        for (what, name) in [
            ("permission denied for table message", "message"),
            ("permission denied for function put_queue", "put_queue"),
            ("keine Berechtigung für Schema consign", "consign"),
            ("droit refusé pour la table « message »", "message"),
            ("permission denied for table \"message\"", "message"),
        ] {
            assert_eq!(object(what), name, "{what}");
        }
    }
}
