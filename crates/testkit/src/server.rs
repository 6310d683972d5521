//! The PostgreSQL server on which tests make their databases.

use std::net::SocketAddr;

use sqlx::{Connection, PgConnection};
use url::Url;

const VARIABLE: &str = "CONSIGN_TEST_POSTGRES_URL";

/// A server, known by the URL of a superuser on its maintenance database.
#[derive(Clone)]
pub(crate) struct Server {
    maintenance: Url,
}

impl Server {
    pub(crate) fn from_env() -> Self {
        match std::env::var(VARIABLE) {
            Ok(url) => Self::at(&url),
            Err(_) => {
                panic!("run scripts/test, which starts a throw-away PostgreSQL, or set {VARIABLE}")
            }
        }
    }

    pub(crate) fn at(url: &str) -> Self {
        let maintenance = Url::parse(url).expect("the URL of the PostgreSQL server is a URL");
        Self { maintenance }
    }

    /// A connection to the maintenance database.
    pub(crate) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        PgConnection::connect(self.maintenance.as_str()).await
    }

    /// The URL of another database on the same server.
    pub(crate) fn url(&self, database: &str) -> String {
        let mut url = self.maintenance.clone();
        url.set_path(database);
        url.into()
    }

    /// The URL of a database on this server, reached through another address.
    pub(crate) fn url_via(&self, address: SocketAddr, database: &str) -> String {
        let mut url = self.maintenance.clone();
        url.set_path(database);
        url.set_ip_host(address.ip())
            .expect("a PostgreSQL URL has a host");
        url.set_port(Some(address.port()))
            .expect("a PostgreSQL URL has a port");
        url.into()
    }

    /// Where the server listens.
    pub(crate) async fn address(&self) -> SocketAddr {
        tokio::net::lookup_host((self.host(), self.port()))
            .await
            .expect("resolve the host of the PostgreSQL server")
            .next()
            .expect("the host of the PostgreSQL server has an address")
    }

    pub(crate) fn host(&self) -> &str {
        self.maintenance
            .host_str()
            .unwrap_or("127.0.0.1")
            .trim_matches(['[', ']'])
    }

    pub(crate) fn port(&self) -> u16 {
        self.maintenance.port().unwrap_or(5432)
    }

    pub(crate) fn user(&self) -> &str {
        match self.maintenance.username() {
            "" => "postgres",
            user => user,
        }
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.maintenance.password()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_database_keeps_user_port_and_options() {
        let server = Server::at("postgres://root:secret@127.0.0.1:6001/postgres?sslmode=disable");
        assert_eq!(
            server.url("test_1"),
            "postgres://root:secret@127.0.0.1:6001/test_1?sslmode=disable"
        );
        assert_eq!(
            server.url_via(([127, 0, 0, 1], 7000).into(), "test_1"),
            "postgres://root:secret@127.0.0.1:7000/test_1?sslmode=disable"
        );
    }

    #[test]
    fn what_a_url_leaves_out_has_the_usual_default() {
        let server = Server::at("postgres://localhost/postgres");
        assert_eq!((server.host(), server.port()), ("localhost", 5432));
        assert_eq!((server.user(), server.password()), ("postgres", None));
    }
}
