//! The address of a database.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use consign_redact::names_secret;

use crate::failure::Failure;

const DEFAULT_FILE: &str = "consign.db";

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A file.
    Sqlite {
        /// Its path.
        path: PathBuf,
        /// The default file: the first command that writes creates it.
        by_default: bool,
    },
    /// A server.
    Postgres {
        /// With its password, so never printed; see `Display`.
        url: String,
    },
}

impl Address {
    /// The database that was named, else a file in the working directory.
    pub fn resolve(named: Option<(&str, &str)>) -> Result<Self, Failure> {
        match named.filter(|(text, _)| !text.is_empty()) {
            Some((text, origin)) => Self::parse(text, origin),
            None => Ok(Self::Sqlite {
                path: DEFAULT_FILE.into(),
                by_default: true,
            }),
        }
    }

    fn parse(text: &str, origin: &str) -> Result<Self, Failure> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres { url: text.into() });
        }
        let refuse = |why: &str| {
            let forms = "write sqlite:PATH, a path, or postgres://USER@HOST/DATABASE";
            Err(Failure::usage(format!("{origin}: {why}; {forms}")))
        };
        let path = match text.strip_prefix("sqlite:") {
            Some(rest) => rest.strip_prefix("//").unwrap_or(rest),
            None => match scheme(text) {
                Some("postgres" | "postgresql") => {
                    return refuse("a PostgreSQL address has // after its first colon");
                }
                Some(scheme) => {
                    return refuse(&format!("a database of kind {scheme:?} cannot be used"));
                }
                None => text,
            },
        };
        if path.contains("://") {
            return refuse("that is not the path of a SQLite file");
        }
        // Never repeated: it may hold a password.
        if ["host=", "dbname=", "user="]
            .iter()
            .any(|word| path.contains(word))
        {
            return refuse("a list of keywords and values is not understood");
        }
        if path.is_empty() || path == ":memory:" || path.contains('?') {
            return refuse("that is not the path of a SQLite file");
        }
        Ok(Self::Sqlite {
            path: path.into(),
            by_default: false,
        })
    }

    /// Whether it is the file that consign creates by itself, to try things with.
    pub fn is_to_try(&self) -> bool {
        matches!(
            self,
            Self::Sqlite {
                by_default: true,
                ..
            }
        )
    }

    /// Whether logins of the database's own can write to it, with other rights than this process has.
    pub fn has_roles(&self) -> bool {
        matches!(self, Self::Postgres { .. })
    }

    /// The files that the database consists of, if it does.
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::Sqlite { path, .. } => ["", "-wal", "-shm"]
                .map(|end| PathBuf::from(format!("{}{end}", path.display())))
                .into(),
            Self::Postgres { .. } => Vec::new(),
        }
    }

    /// The file at `path`.
    pub fn file(path: &Path) -> Self {
        Self::Sqlite {
            path: path.to_owned(),
            by_default: false,
        }
    }
}

/// The text before the first colon, where that looks like a scheme. One letter is a drive, and a
/// path may have a colon after a slash or a dot.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let is_word = scheme
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '+' || c == '-');
    (is_word && scheme.len() > 1).then_some(scheme)
}

/// Fit to be printed and to be typed again: a password is left out.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { path, .. } => write!(f, "sqlite:{}", path.display()),
            Self::Postgres { url } => f.write_str(&without_password(url)),
        }
    }
}

/// An address without a password, whether it is before the host or among the options.
pub fn without_password(url: &str) -> String {
    let (rest, options) = url
        .split_once('?')
        .map_or((url, None), |(rest, options)| (rest, Some(options)));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("postgres", rest));
    // The last @ ends the credentials: an unescaped one in a password is common.
    let clean = match rest.rsplit_once('@') {
        Some((credentials, place)) => {
            let user = credentials.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{place}")
        }
        None => format!("{scheme}://{rest}"),
    };
    let harmless = |option: &&str| !names_secret(option.split('=').next().unwrap_or_default());
    let options: Vec<&str> = options
        .into_iter()
        .flat_map(|text| text.split('&'))
        .filter(harmless)
        .collect();
    if options.is_empty() {
        clean
    } else {
        format!("{clean}?{}", options.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_file_is_understood() {
        for (text, path) in [
            ("sqlite:a.db", "a.db"),
            ("sqlite://a.db", "a.db"),
            ("sqlite:///var/a.db", "/var/a.db"),
            ("/var/a.db", "/var/a.db"),
            ("a b.db", "a b.db"),
            ("./a:b.db", "./a:b.db"),
            ("sqlite:a:b.db", "a:b.db"),
            ("C:\\a.db", "C:\\a.db"),
        ] {
            let address = Address::parse(text, "test").unwrap();
            assert_eq!(address, Address::file(Path::new(path)), "{text}");
        }
        for bad in [
            "mysql://host/db",
            "sqlite:",
            "sqlite::memory:",
            "a.db?mode=ro",
            "file:a.db",
            "localhost:5432/shop",
            "host=localhost dbname=shop",
        ] {
            assert!(Address::parse(bad, "test").is_err(), "{bad}");
        }
    }

    #[test]
    fn a_server_is_never_taken_for_a_file() {
        for text in ["postgres:localhost", "postgresql:/localhost/shop"] {
            let failure = Address::parse(text, "--database").unwrap_err();
            assert_eq!(
                failure.message(),
                "--database: a PostgreSQL address has // after its first colon; write sqlite:PATH, \
                 a path, or postgres://USER@HOST/DATABASE"
            );
        }
        let failure = Address::parse("host=db password=hunter2 dbname=x", "DATABASE_URL");
        let failure = failure.unwrap_err();
        assert!(!failure.message().contains("hunter2"), "{failure:?}");
    }

    #[test]
    fn a_password_is_never_printed() {
        for (url, shown) in [
            ("postgres://me:s3cret@db:5432/x", "postgres://me@db:5432/x"),
            ("postgresql://me:s3@cret@db/x", "postgresql://me@db/x"),
            ("postgres://db/x", "postgres://db/x"),
            (
                "postgres://db/x?password=s3cret&sslmode=require&sslpassword=s3cret",
                "postgres://db/x?sslmode=require",
            ),
        ] {
            let address = Address::parse(url, "test").unwrap();
            assert_eq!(address.to_string(), shown);
        }
    }
}
