use super::*;
use crate::token::Token;
use axum::http::HeaderValue;

fn entry(name: &str, token: &str) -> TokenEntry {
    TokenEntry {
        name: name.to_owned(),
        hash: Token::new(token).hash(),
        scopes: vec![Scope::Auditor],
    }
}

fn sessions(tokens: &[TokenEntry], now: i64) -> Sessions {
    let options = ServerOptions {
        tokens: tokens.to_vec(),
        ..ServerOptions::default()
    };
    let now = Timestamp::from_second(now).unwrap();
    Sessions::new(&options, Arc::new(move || now))
}

fn carrying(cookie: &str) -> HeaderMap {
    let pair = cookie.split(';').next().unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(header::COOKIE, HeaderValue::from_str(pair).unwrap());
    headers
}

#[test]
fn any_server_with_the_token_accepts_its_sessions_until_they_end() {
    let tokens = [entry("ada", "a"), entry("bob", "b")];
    let cookie = sessions(&tokens, 1_000).open(&tokens[1]);
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=28800"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "{cookie}");
    let headers = carrying(&cookie);
    let (known, visit) = sessions(&tokens, 2_000).known(&tokens, &headers).unwrap();
    assert_eq!(known.name, "bob");
    assert!(!visit.may_operate);
    assert!(
        sessions(&tokens, 1_000 + 28_799)
            .known(&tokens, &headers)
            .is_some()
    );
    assert!(
        sessions(&tokens, 1_000 + 28_800)
            .known(&tokens, &headers)
            .is_none()
    );
    // Where the clock is behind, but not where a session would last much longer.
    for (now, is_known) in [(999, true), (940, true), (939, false)] {
        let known = sessions(&tokens, now).known(&tokens, &headers).is_some();
        assert_eq!(known, is_known, "{now}");
    }
    // The token was taken away, or another was given the name.
    assert!(
        sessions(&tokens, 2_000)
            .known(&tokens[..1], &headers)
            .is_none()
    );
    let renewed = [entry("ada", "a"), entry("bob", "c")];
    assert!(
        sessions(&renewed, 2_000)
            .known(&renewed, &headers)
            .is_none()
    );
}

#[test]
fn no_letter_of_a_cookie_can_be_changed() {
    let tokens = [entry("ada", "a"), entry("bob", "b")];
    let sessions = sessions(&tokens, 1_000);
    let cookie = sessions.open(&tokens[0]);
    let value = cookie.split(';').next().unwrap().split_once('=').unwrap().1;
    for at in 0..value.len() {
        let mut other = value.as_bytes().to_vec();
        other[at] = if other[at] == b'0' { b'1' } else { b'0' };
        let other = format!(
            "{}={}",
            sessions.names.session,
            String::from_utf8(other).unwrap()
        );
        assert!(
            sessions.known(&tokens, &carrying(&other)).is_none(),
            "{other}"
        );
    }
    for other in [
        "",
        "v1",
        "v1....",
        &format!("{value}.x"),
        &value[..value.len() - 2],
    ] {
        let other = format!("{}={other}", sessions.names.session);
        assert!(
            sessions.known(&tokens, &carrying(&other)).is_none(),
            "{other}"
        );
    }
}

#[test]
fn a_visitor_without_login_has_no_session_and_a_form_belongs_to_one_session() {
    let tokens = [entry("ada", "a")];
    let sessions = sessions(&tokens, 1_000);
    let anonymous = sessions.anonymous_visit(&HeaderMap::new());
    let headers = carrying(anonymous.cookie.as_deref().unwrap());
    assert!(sessions.known(&tokens, &headers).is_none());
    let again = sessions.anonymous_visit(&headers);
    assert_eq!((&again.csrf, &again.cookie), (&anonymous.csrf, &None));
    let other = sessions.anonymous_visit(&HeaderMap::new());
    assert!(anonymous.owns(anonymous.csrf.as_deref()));
    assert!(!anonymous.owns(other.csrf.as_deref()));
    assert!(!anonymous.owns(None));
    assert!(!anonymous.owns(Some("")));
    // The session of a token is not an anonymous one, and a visit does not end it.
    let logged_in = carrying(&sessions.open(&tokens[0]));
    let visitor = sessions.anonymous_visit(&logged_in).cookie.unwrap();
    assert!(visitor.starts_with(&sessions.names.visitor), "{visitor}");
}

#[test]
fn with_a_key_of_their_own_sessions_need_it_and_the_token() {
    let tokens = [entry("ada", "a")];
    let with = |key: Option<&str>, tokens: &[TokenEntry]| {
        let options = ServerOptions {
            tokens: tokens.to_vec(),
            session_key: key.map(|key| SessionKey::try_from(key.repeat(32)).unwrap()),
            ..ServerOptions::default()
        };
        let now = Timestamp::from_second(1_000).unwrap();
        Sessions::new(&options, Arc::new(move || now))
    };
    let headers = carrying(&with(Some("k"), &tokens).open(&tokens[0]));
    let knows = |key, tokens: &[TokenEntry]| with(key, tokens).known(tokens, &headers).is_some();
    assert!(knows(Some("k"), &tokens), "another server with both");
    assert!(!knows(Some("x"), &tokens), "the key was replaced");
    assert!(!knows(None, &tokens), "the hash alone makes no session");
    assert!(!knows(Some("k"), &[entry("ada", "b")]), "another token");
    let visitor = with(Some("k"), &tokens).anonymous_visit(&HeaderMap::new());
    let visitor = carrying(visitor.cookie.as_deref().unwrap());
    assert!(
        with(Some("k"), &tokens)
            .anonymous_visit(&visitor)
            .cookie
            .is_none()
    );
    assert!(
        with(None, &tokens)
            .anonymous_visit(&visitor)
            .cookie
            .is_some()
    );
}

#[test]
fn a_foreign_cookie_of_the_same_name_does_not_hide_ours() {
    let tokens = [entry("ada", "a")];
    let sessions = sessions(&tokens, 1_000);
    let cookie = sessions.open(&tokens[0]);
    let pair = cookie.split(';').next().unwrap();
    let name = &sessions.names.session;
    let headers = carrying(&format!("{name}=v1.x.y.z.0"));
    assert!(sessions.known(&tokens, &headers).is_none());
    let mut headers = HeaderMap::new();
    let both = format!("theme=dark; {name}=v1.x.y.z.0; {pair}");
    headers.insert(header::COOKIE, HeaderValue::from_str(&both).unwrap());
    assert!(sessions.known(&tokens, &headers).is_some());
}

#[test]
fn servers_that_share_nothing_do_not_take_each_others_cookies() {
    let with = |token: Option<&str>, listen: &str, is_secure| {
        let options = ServerOptions {
            tokens: token.map(|token| entry("ada", token)).into_iter().collect(),
            listen: listen.parse().unwrap(),
            dashboard_secure_cookie: is_secure,
            ..ServerOptions::default()
        };
        let sessions = Sessions::new(&options, Arc::new(|| Timestamp::UNIX_EPOCH));
        sessions.names.session
    };
    let (one, other) = ("127.0.0.1:8787", "127.0.0.1:8788");
    assert_eq!(with(Some("a"), one, false), with(Some("a"), other, false));
    assert_ne!(with(Some("a"), one, false), with(Some("b"), one, false));
    assert_eq!(with(None, one, false), with(None, one, false));
    assert_ne!(with(None, one, false), with(None, other, false));
    assert!(!with(Some("a"), one, false).starts_with("__Host-"));
    assert!(with(Some("a"), one, true).starts_with("__Host-consign_session_"));
}

#[test]
fn who_has_just_logged_out_is_known_for_a_minute() {
    let tokens = [entry("ada", "a")];
    let cookie = sessions(&tokens, 1_000).left();
    let headers = carrying(&cookie);
    for (now, is_known) in [(1_000, true), (1_059, true), (1_060, false)] {
        assert_eq!(
            sessions(&tokens, now).has_logged_out(&headers),
            is_known,
            "{now}"
        );
    }
    let forged = carrying(&cookie.replace("=1060.", "=9060."));
    assert!(!sessions(&tokens, 1_000).has_logged_out(&forged));
    let other = [entry("ada", "b")];
    let name = &sessions(&other, 1_000).names.left;
    let (_, value) = cookie.split_once('=').unwrap();
    let planted = carrying(&format!("{name}={value}"));
    assert!(!sessions(&other, 1_000).has_logged_out(&planted));
    assert!(!sessions(&tokens, 1_000).has_logged_out(&HeaderMap::new()));
}
