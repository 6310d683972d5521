//! Logins of a PostgreSQL server, to try what roles may do.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::TestDatabase;

/// A login without any role.
#[derive(Debug)]
pub struct Login {
    name: String,
    admin: String,
}

impl Login {
    /// Makes it on the server of a database.
    pub async fn create(database: &TestDatabase) -> Self {
        let login = Self {
            name: format!("login_{}", database.name()),
            admin: database.url().to_owned(),
        };
        login
            .run(format!("CREATE ROLE {} LOGIN PASSWORD 'pass'", login.name))
            .await;
        login
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same database, reached as this login.
    pub fn url(&self) -> String {
        let (_, rest) = self.admin.split_once("://").expect("a database has a URL");
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        format!("postgres://{}:pass@{place}", self.name)
    }

    /// Puts it into a role.
    pub async fn grant(&self, role: &str) {
        self.run(format!("GRANT {role} TO {}", self.name)).await;
    }

    /// Removes it from the server.
    pub async fn remove(self) {
        self.run(format!("DROP ROLE {}", self.name)).await;
    }

    /// Runs SQL in the database as its owner.
    pub async fn run(&self, sql: String) {
        let connected = PgConnection::connect(&self.admin).await;
        let mut connection = connected.expect("the database's owner connects");
        let ran = sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&mut connection);
        ran.await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}
