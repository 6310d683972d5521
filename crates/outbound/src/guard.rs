//! The address guard: no request leaves for an address inside.
//!
//! A destination comes from a configuration or a database that others may have a hand in, and names
//! resolve to whatever their owner sets at that moment. So names are looked up here, for each
//! connection, and the client connects to the very addresses that were checked.

mod address;

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
};

use reqwest::{
    Url,
    dns::{Name, Resolve, Resolving},
};

use self::address::{Range, meant, not_public};

/// The exceptions: addresses and names that may be reached although they are not public.
#[derive(Clone, Debug, Default)]
pub struct Exceptions {
    everything: bool,
    ranges: Vec<Range>,
    hosts: Vec<String>,
}

impl Exceptions {
    /// No address is ruled out.
    pub fn everything() -> Self {
        Self {
            everything: true,
            ..Self::default()
        }
    }

    /// Reads addresses, ranges and host names. What is wrong with one reads on after the setting's name.
    pub fn parse(entries: &[String]) -> Result<Self, String> {
        let mut allowed = Self::default();
        for entry in entries {
            match entry.parse::<Range>() {
                Ok(range) => allowed.ranges.push(range),
                Err(_) if is_host(entry) => allowed.hosts.push(entry.to_ascii_lowercase()),
                Err(why) => {
                    return Err(format!("{why}, nor is it a host name: {entry:?}"));
                }
            }
        }
        Ok(allowed)
    }

    /// Why `address`, to which `host` led, may not be reached.
    fn objection(&self, host: &str, address: IpAddr) -> Option<&'static str> {
        let objection = not_public(address)?;
        let address = meant(address);
        let excepted = self.everything
            || self.ranges.iter().any(|range| range.contains(address))
            || self.has_host(host);
        (!excepted).then_some(objection)
    }

    fn has_host(&self, host: &str) -> bool {
        let mut hosts = self.hosts.iter();
        hosts.any(|name| name.eq_ignore_ascii_case(host))
    }

    /// Whether `host` itself is an exception: for programs that look names up by themselves, where no
    /// address can be checked.
    pub fn names(&self, host: &str) -> bool {
        let is_in_range = |address| {
            self.ranges
                .iter()
                .any(|range| range.contains(meant(address)))
        };
        self.everything || self.has_host(host) || literal(host).is_some_and(is_in_range)
    }

    /// Rejects a URL whose host is an address that may not be reached: no name, no lookup. The reason
    /// reads on after the setting's name.
    pub fn check_literal(&self, url: &Url) -> Result<(), String> {
        let host = url.host_str().unwrap_or_default();
        let Some(address) = literal(host) else {
            return Ok(());
        };
        match self.objection(host, address) {
            None => Ok(()),
            Some(why) => Err(format!(
                "leads to {address}, which is {why}; to permit it, add it to `allow`"
            )),
        }
    }

    /// A resolver for a client that connects to allowed addresses only.
    pub fn resolver(self) -> impl Resolve + 'static {
        SharedGuard(Arc::new(Guard::new(self)))
    }

    /// The addresses of a host that may be reached, looked up now.
    pub async fn addresses(self, host: &str) -> Result<Vec<IpAddr>, Refusal> {
        let passed = Guard::new(self).pass(host.to_owned()).await?;
        Ok(passed.iter().map(SocketAddr::ip).collect())
    }
}

/// The address that a host is, if it is no name.
fn literal(host: &str) -> Option<IpAddr> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse().ok()
}

fn is_host(entry: &str) -> bool {
    // What looks like a number is a mistyped address, not a name.
    let numeric = entry
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'/'));
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    !entry.is_empty() && !numeric && entry.bytes().all(plain)
}

type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;
type Lookup = Box<dyn Fn(String) -> LookupFuture + Send + Sync>;

/// Resolves names and returns only addresses that may be reached.
struct Guard {
    allowed: Exceptions,
    lookup: Lookup,
}

impl Guard {
    /// A guard that uses the system's resolver.
    fn new(allowed: Exceptions) -> Self {
        let lookup = |host: String| -> LookupFuture {
            Box::pin(async move {
                let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        };
        Self {
            allowed,
            lookup: Box::new(lookup),
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("allowed", &self.allowed)
            .finish_non_exhaustive()
    }
}

/// Lets a `Guard` be shared with the client.
#[derive(Debug)]
struct SharedGuard(Arc<Guard>);

impl Resolve for SharedGuard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.0);
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let addresses = guard.pass(host).await?;
            Ok(Box::new(addresses.into_iter()) as Box<dyn Iterator<Item = SocketAddr> + Send>)
        })
    }
}

impl Guard {
    async fn pass(&self, host: String) -> Result<Vec<SocketAddr>, Refusal> {
        let found = match (self.lookup)(host.clone()).await {
            Ok(found) => found,
            Err(error) => {
                return Err(Refusal::NotFound {
                    host,
                    why: error.to_string(),
                });
            }
        };
        let mut refusal = Refusal::NotFound {
            host: host.clone(),
            why: "it has no address".into(),
        };
        let mut passed = Vec::new();
        for address in found {
            match self.allowed.objection(&host, address) {
                None => passed.push(SocketAddr::new(address, 0)),
                Some(why) => {
                    let host = host.clone();
                    refusal = Refusal::Blocked { host, address, why };
                }
            }
        }
        if passed.is_empty() {
            Err(refusal)
        } else {
            Ok(passed)
        }
    }
}

/// Why a name leads nowhere.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no such name, or the lookup failed.
    #[error("{host} could not be looked up: {why}")]
    NotFound {
        /// The name.
        host: String,
        /// The system's error.
        why: String,
    },
    /// It has addresses that may not be reached, and no others.
    #[error("{host} leads to {address}, which is {why}; to permit it, add it to `allow`")]
    Blocked {
        /// The name.
        host: String,
        /// One of its addresses.
        address: IpAddr,
        /// What sort of address that is.
        why: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn guard(allow: &[&str], answers: &'static [&'static [&'static str]]) -> Guard {
        let allow: Vec<String> = allow.iter().map(|&entry| entry.to_owned()).collect();
        let asked = AtomicUsize::new(0);
        let lookup = move |_: String| -> LookupFuture {
            let turn = asked.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
            let found = answers[turn].iter().map(|a| a.parse().unwrap()).collect();
            Box::pin(async move { Ok(found) })
        };
        Guard {
            allowed: Exceptions::parse(&allow).unwrap(),
            lookup: Box::new(lookup),
        }
    }

    async fn passed(guard: &Guard) -> Result<Vec<String>, String> {
        match guard.pass("hooks.example".into()).await {
            Ok(passed) => Ok(passed
                .iter()
                .map(|address| address.ip().to_string())
                .collect()),
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    #[tokio::test]
    async fn a_name_that_turns_inwards_is_refused_at_the_next_connection() {
        let guard = guard(&[], &[&["8.8.8.8"], &["169.254.169.254"]]);
        assert_eq!(passed(&guard).await.unwrap(), ["8.8.8.8"]);
        let error = passed(&guard).await.unwrap_err();
        assert!(
            error.contains("hooks.example leads to 169.254.169.254"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn of_several_addresses_only_the_public_ones_pass() {
        let guard = guard(&[], &[&["10.0.0.1", "8.8.8.8", "::1", "::ffff:127.0.0.1"]]);
        assert_eq!(passed(&guard).await.unwrap(), ["8.8.8.8"]);
    }

    #[tokio::test]
    async fn exceptions_are_by_range_or_by_name() {
        let answers: &'static [&'static [&'static str]] = &[&["10.0.0.1", "::ffff:10.0.0.2"]];
        assert!(
            passed(&guard(&["10.1.0.0/16", "other.example"], answers))
                .await
                .is_err()
        );
        assert_eq!(
            passed(&guard(&["10.0.0.0/8"], answers))
                .await
                .unwrap()
                .len(),
            2
        );
        assert_eq!(
            passed(&guard(&["Hooks.Example"], answers))
                .await
                .unwrap()
                .len(),
            2
        );
        assert_eq!(
            passed(&guard(&["10.0.0.2"], answers)).await.unwrap(),
            ["::ffff:10.0.0.2"]
        );
    }

    #[test]
    fn a_literal_is_checked_however_it_is_written() {
        let none = Exceptions::default();
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://017700000001/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://0/",
        ] {
            let url: Url = url.parse().unwrap();
            assert!(none.check_literal(&url).is_err(), "{url}");
        }
        let public: Url = "http://8.8.8.8/".parse().unwrap();
        none.check_literal(&public).unwrap();
    }

    #[test]
    fn a_program_that_looks_up_by_itself_goes_to_named_hosts_only() {
        let entries = ["svn.example", "10.0.0.0/8", "8.8.8.8"].map(str::to_owned);
        let allowed = Exceptions::parse(&entries).unwrap();
        for (host, is_named) in [
            ("SVN.example", true),
            ("10.1.2.3", true),
            ("[::ffff:10.1.2.3]", true),
            ("8.8.8.8", true),
            ("9.9.9.9", false),
            ("127.0.0.1", false),
            ("other.example", false),
            ("", false),
        ] {
            assert_eq!(allowed.names(host), is_named, "{host}");
        }
        assert!(Exceptions::everything().names("other.example"));
        let loopback: Url = "http://127.0.0.1/".parse().unwrap();
        Exceptions::everything().check_literal(&loopback).unwrap();
    }

    #[test]
    fn a_mistyped_exception_is_refused() {
        for bad in ["10.0.0", "10.0.0.0/33", "", "http://x", "a b", "300.1.1.1"] {
            assert!(Exceptions::parse(&[bad.to_owned()]).is_err(), "{bad:?}");
        }
    }
}
