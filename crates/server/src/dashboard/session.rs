//! Sessions of the dashboard. None is stored: a cookie names its token and its end, and carries a
//! code that only a server with the configuration can compute. Removing a token from the configuration
//! ends its sessions on every server.

use std::{fmt, sync::Arc};

use axum::http::{HeaderMap, header};
use consign_kernel::hex;
use jiff::Timestamp;
use ring::{
    hmac,
    rand::{SecureRandom, SystemRandom},
};

use crate::{
    options::{ServerOptions, TokenEntry},
    session_key::SessionKey,
    token::Scope,
};

/// How far the clocks of servers that share sessions may be apart.
const LEEWAY_S: i64 = 60;

/// How long the page after a logout shows that.
const LEFT_S: i64 = 60;

/// Changes with the meaning of the rest of a cookie.
const VERSION: &str = "v1";

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Opens and verifies sessions.
pub(crate) struct Sessions {
    clock: Clock,
    ttl_s: i64,
    /// Whether browsers may send the cookie over HTTPS only.
    is_secure: bool,
    /// What the keys come from besides the tokens.
    secret: Option<SessionKey>,
    /// The key of visitors without a login: their sessions only tie forms to browsers.
    anonymous: hmac::Key,
    names: Names,
}

/// The names of the cookies. Browsers share cookies between the ports of a host: servers that do not
/// share sessions must not read each other's cookies, so their names differ.
struct Names {
    /// A session's. It counts on pages only, never for the API.
    session: String,
    /// The same for those without a token. Another name, since a link from elsewhere comes without
    /// either cookie, and what is set then must not end a session.
    visitor: String,
    /// What was just done.
    done: String,
    /// A recent logout.
    left: String,
}

impl Names {
    fn new(tag: &str, is_secure: bool) -> Self {
        // Browsers take a name with this prefix from this very host and over HTTPS only.
        let prefix = if is_secure { "__Host-" } else { "" };
        let name = |what: &str| format!("{prefix}consign_{what}_{tag}");
        Self {
            session: name("session"),
            visitor: name("visitor"),
            done: name("done"),
            left: name("left"),
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

/// The visitor of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    /// The token they have logged in with; none where none is needed.
    pub(crate) name: Option<String>,
    /// Whether they may do more than look.
    pub(crate) may_operate: bool,
    /// What their forms must carry. None for who sends a bearer token with each request, which no
    /// other page can make a browser do.
    pub(crate) csrf: Option<String>,
    /// The cookie to be set, if they came without one.
    pub(crate) cookie: Option<String>,
    /// Whether the action in the address was done, just now and in this session.
    pub(crate) has_acted: bool,
}

/// The content of a cookie.
struct Session<'c> {
    name: &'c str,
    expires_at: &'c str,
    id: &'c str,
}

impl Sessions {
    pub(crate) fn new(options: &ServerOptions, clock: Clock) -> Self {
        let is_secure = options.has_tls() || options.dashboard_secure_cookie;
        let shared = shared_secret(options);
        let tag = match &shared {
            Some(secret) => derived(secret, b"consign dashboard: names of cookies"),
            // The same after a restart, so that browsers do not collect cookies.
            None => derived(options.listen.to_string().as_bytes(), b"listens here"),
        };
        Self {
            clock,
            ttl_s: i64::try_from(options.session_ttl_ms / 1_000).unwrap_or(i64::MAX),
            is_secure,
            anonymous: anonymous_key(shared),
            names: Names::new(&hex(&tag.bytes()[..4]), is_secure),
            secret: options.session_key.clone(),
        }
    }

    /// A visitor who needs no token, or has not logged in yet.
    pub(crate) fn anonymous_visit(&self, headers: &HeaderMap) -> Visit {
        let known = cookies(headers, &self.names.visitor).find_map(|cookie| {
            let session = self.proven(cookie, &self.anonymous)?;
            session
                .name
                .is_empty()
                .then(|| session.csrf(&self.anonymous))
        });
        let (csrf, cookie) = match known {
            Some(csrf) => (csrf, None),
            None => {
                let (value, csrf) = self.opened("", &self.anonymous);
                (
                    csrf,
                    Some(self.cookie(&self.names.visitor, &value, self.ttl_s)),
                )
            }
        };
        Visit {
            may_operate: true,
            csrf: Some(csrf),
            cookie,
            ..Visit::anonymous()
        }
    }

    /// The visitor of a valid session, with its token.
    pub(crate) fn known<'t>(
        &self,
        tokens: &'t [TokenEntry],
        headers: &HeaderMap,
    ) -> Option<(&'t TokenEntry, Visit)> {
        cookies(headers, &self.names.session).find_map(|cookie| {
            let name = Session::read(cookie)?.0.name;
            let entry = tokens
                .iter()
                .find(|entry| hex(entry.name.as_bytes()) == name)?;
            let key = self.key_of(entry);
            let session = self.proven(cookie, &key)?;
            let visit = Visit {
                csrf: Some(session.csrf(&key)),
                ..Visit::bearer(entry)
            };
            Some((entry, visit))
        })
    }

    /// Whether a browser shows a session at all, be it one that has ended.
    pub(crate) fn has_session_cookie(&self, headers: &HeaderMap) -> bool {
        cookies(headers, &self.names.session).any(|value| !value.is_empty())
    }

    /// The cookie of a new session of this token.
    pub(crate) fn open(&self, entry: &TokenEntry) -> String {
        let name = hex(entry.name.as_bytes());
        let (value, _) = self.opened(&name, &self.key_of(entry));
        self.cookie(&self.names.session, &value, self.ttl_s)
    }

    /// The cookie that takes the session away from its browser.
    pub(crate) fn ended(&self) -> String {
        self.cookie(&self.names.session, "", 0)
    }

    /// The cookie that lets the next page show the logout: the address alone proves nothing.
    pub(crate) fn left(&self) -> String {
        let until = (self.clock)().as_second().saturating_add(LEFT_S);
        let proof = hmac::sign(&self.anonymous, logout_code(until).as_bytes());
        let value = format!("{until}.{}", hex(proof.as_ref()));
        self.cookie(&self.names.left, &value, LEFT_S)
    }

    /// Whether this browser has just logged out.
    pub(crate) fn has_logged_out(&self, headers: &HeaderMap) -> bool {
        let now = (self.clock)().as_second();
        cookies(headers, &self.names.left).any(|value| {
            let proof_parts = value.split_once('.');
            let read =
                proof_parts.and_then(|(until, proof)| Some((until.parse().ok()?, unhex(proof)?)));
            read.is_some_and(|(until, proof): (i64, _)| {
                let is_true = hmac::verify(&self.anonymous, logout_code(until).as_bytes(), &proof);
                until > now && is_true.is_ok()
            })
        })
    }

    /// The cookie of the answer to an action, for the next page.
    pub(super) fn done(&self, code: &str, age_s: i64) -> String {
        self.cookie(&self.names.done, code, age_s)
    }

    /// Every such code that a browser shows.
    pub(super) fn flash_codes<'h>(
        &self,
        headers: &'h HeaderMap,
    ) -> impl Iterator<Item = &'h str> + use<'h> {
        cookies(headers, &self.names.done)
    }

    /// The key of a token's sessions: the same on every server with the same tokens and the same
    /// secret.
    fn key_of(&self, entry: &TokenEntry) -> hmac::Key {
        let purpose = b"consign dashboard: sessions of a token";
        let own = derived(entry.hash.as_bytes(), purpose);
        match &self.secret {
            None => own.key(),
            // Replacing the token still ends its sessions.
            Some(secret) => derived(secret.reveal().as_bytes(), own.bytes()).key(),
        }
    }

    /// A new session: the content of its cookie, and the code for its forms.
    fn opened(&self, name: &str, key: &hmac::Key) -> (String, String) {
        let mut id = [0; 16];
        let filled = SystemRandom::new().fill(&mut id);
        filled.expect("invariant: the operating system has randomness");
        let expires_at = (self.clock)().as_second().saturating_add(self.ttl_s);
        let session = Session {
            name,
            expires_at: &expires_at.to_string(),
            id: &hex(&id),
        };
        let proof = session.code("session", key);
        let Session {
            name,
            expires_at,
            id,
        } = session;
        let value = format!("{VERSION}.{name}.{expires_at}.{id}.{proof}");
        (value, session.csrf(key))
    }

    /// A cookie that scripts cannot read and other sites cannot send.
    fn cookie(&self, name: &str, value: &str, age_s: i64) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}")
    }

    /// The content of a cookie, if its code is right and it has not expired.
    fn proven<'c>(&self, cookie: &'c str, key: &hmac::Key) -> Option<Session<'c>> {
        let (session, proof) = Session::read(cookie)?;
        hmac::verify(key, session.text("session").as_bytes(), &unhex(proof)?).ok()?;
        let expires_at: i64 = session.expires_at.parse().ok()?;
        let now = (self.clock)().as_second();
        // No longer one is issued, but the clock of the issuing server may be ahead.
        let longest = now.saturating_add(self.ttl_s).saturating_add(LEEWAY_S);
        (expires_at > now && expires_at <= longest).then_some(session)
    }
}

impl Visit {
    /// A visitor that sends this bearer token with each request.
    pub(crate) fn bearer(entry: &TokenEntry) -> Self {
        Self {
            name: Some(entry.name.clone()),
            may_operate: entry.scopes.contains(&Scope::Operator),
            ..Self::anonymous()
        }
    }

    /// A visitor without a session that a form of another page could use.
    pub(crate) fn anonymous() -> Self {
        Self {
            name: None,
            may_operate: false,
            csrf: None,
            cookie: None,
            has_acted: false,
        }
    }

    /// Whether a form was made for this session.
    pub(crate) fn owns(&self, csrf: Option<&str>) -> bool {
        use subtle::ConstantTimeEq as _;
        match &self.csrf {
            None => true,
            Some(own) => {
                csrf.is_some_and(|proof_parts| own.as_bytes().ct_eq(proof_parts.as_bytes()).into())
            }
        }
    }
}

impl<'c> Session<'c> {
    fn read(cookie: &'c str) -> Option<(Self, &'c str)> {
        let mut parts = cookie.split('.');
        let mut next = || parts.next();
        let (VERSION, name, expires_at, id, proof) = (next()?, next()?, next()?, next()?, next()?)
        else {
            return None;
        };
        let session = Self {
            name,
            expires_at,
            id,
        };
        parts.next().is_none().then_some((session, proof))
    }

    fn text(&self, purpose: &str) -> String {
        let Self {
            name,
            expires_at,
            id,
        } = self;
        format!("{purpose}.{VERSION}.{name}.{expires_at}.{id}")
    }

    fn code(&self, purpose: &str, key: &hmac::Key) -> String {
        hex(hmac::sign(key, self.text(purpose).as_bytes()).as_ref())
    }

    fn csrf(&self, key: &hmac::Key) -> String {
        self.code("csrf", key)
    }
}

/// What servers with the same configuration have in common, if that is a secret at all.
fn shared_secret(options: &ServerOptions) -> Option<Vec<u8>> {
    let mut secret: Vec<u8> = Vec::new();
    match &options.session_key {
        Some(key) => secret.extend(key.reveal().as_bytes()),
        None => {
            for entry in &options.tokens {
                secret.extend(entry.hash.as_bytes());
            }
        }
    }
    (!secret.is_empty()).then_some(secret)
}

/// With a secret that others share a login may be begun at one server and finished at another;
/// without, the key lives and dies with the process.
fn anonymous_key(shared: Option<Vec<u8>>) -> hmac::Key {
    let secret = shared.unwrap_or_else(|| {
        let mut secret = vec![0; 32];
        let filled = SystemRandom::new().fill(&mut secret);
        filled.expect("invariant: the operating system has randomness");
        secret
    });
    derived(&secret, b"consign dashboard: before the login").key()
}

fn logout_code(until: i64) -> String {
    format!("left.{until}")
}

/// What a secret is turned into for one purpose.
struct DerivedKey(hmac::Tag);

fn derived(secret: &[u8], purpose: &[u8]) -> DerivedKey {
    let outer = hmac::Key::new(hmac::HMAC_SHA256, secret);
    DerivedKey(hmac::sign(&outer, purpose))
}

impl DerivedKey {
    fn bytes(&self) -> &[u8] {
        self.0.as_ref()
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.bytes())
    }
}

/// Every cookie of this name: a browser may send several, of which others may have set some.
fn cookies<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> + use<'h> {
    let name = name.to_owned();
    let lines = headers.get_all(header::COOKIE).iter();
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    pairs.filter_map(move |pair| pair.trim().strip_prefix(name.as_str())?.strip_prefix('='))
}

pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests;
