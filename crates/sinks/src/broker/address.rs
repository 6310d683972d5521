//! Addresses of brokers, which hold no secrets.

use url::Url;

use crate::SinkError;

/// Reads an address and refuses other schemes and passwords in it: they have an option of their
/// own, which is never shown.
pub(crate) fn parse(option: &str, text: &str, schemes: &[&str]) -> Result<Url, SinkError> {
    let refuse = |why: String| SinkError::invalid(option, why);
    let example = schemes[0];
    let url: Url = text
        .parse()
        .map_err(|_| refuse(format!("is not an address such as {example}://host")))?;
    if !schemes.contains(&url.scheme()) || url.host_str().is_none_or(str::is_empty) {
        let starts: Vec<String> = schemes.iter().map(|it| format!("{it}://")).collect();
        return Err(refuse(format!(
            "must start with {} and name a host",
            starts.join(" or ")
        )));
    }
    if url.password().is_some() || !url.username().is_empty() {
        return Err(refuse(
            "must not hold credentials: use `user` and `password`".into(),
        ));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_refused_and_not_repeated() {
        let error = parse("url", "redis://ada:tulip@host", &["redis"]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("use `user` and `password`"), "{error}");
        assert!(!error.contains("tulip"), "{error}");
    }

    #[test]
    fn another_scheme_is_refused() {
        for text in ["http://host", "host:6379", "redis://", "", "redis"] {
            let error = parse("url", text, &["redis", "rediss"]).unwrap_err();
            assert!(error.to_string().contains("redis://"), "{error}");
        }
        assert!(parse("url", "rediss://[::1]:6379/2", &["redis", "rediss"]).is_ok());
    }
}
