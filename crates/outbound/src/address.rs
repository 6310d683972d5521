//! Addresses of other services, as settings give them.

use reqwest::Url;

/// Reads the address of a service. Errors never contain it: it may hold secrets.
pub fn http_url(text: &str) -> Result<Url, &'static str> {
    let not_a_url = |_| "is not a URL such as https://host/path";
    let url: Url = text.parse().map_err(not_a_url)?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("must start with https:// or http://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain a user or password; credentials have settings of their own");
    }
    Ok(url)
}

/// An address for people: without what may be secret in it, which is user, password and query.
pub fn shown_url(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// An address with places for what distinguishes one request from another, written as `{name}`.
#[derive(Clone)]
pub struct UrlTemplate {
    text: String,
    names: &'static [&'static str],
}

impl std::fmt::Debug for UrlTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UrlTemplate")
    }
}

impl UrlTemplate {
    /// Reads a template with places for `names`. The values must change the address, and must not
    /// be able to change the host.
    pub fn parse(text: &str, names: &'static [&'static str]) -> Result<Self, String> {
        let template = Self {
            text: text.to_owned(),
            names,
        };
        let (one, other) = (template.example("a")?, template.example("b")?);
        if one.origin() != other.origin() {
            return Err("must not contain a placeholder in the host".into());
        }
        if one == other {
            let places: Vec<String> = names.iter().map(|name| format!("{{{name}}}")).collect();
            let places = places.join(" or ");
            return Err(format!(
                "must contain {places}: without it every request has the same answer"
            ));
        }
        Ok(template)
    }

    /// The address with the same value in all places, to be checked: those of requests differ from
    /// it in path and query only.
    pub fn example(&self, value: &str) -> Result<Url, &'static str> {
        http_url(&self.filled(&vec![value; self.names.len()]))
    }

    /// The address of a request. The values are encoded by the caller and in the order of the names.
    pub fn fill(&self, values: &[&str]) -> Result<Url, &'static str> {
        http_url(&self.filled(values))
    }

    /// In one pass: a value may itself look like a place.
    fn filled(&self, values: &[&str]) -> String {
        assert_eq!(self.names.len(), values.len(), "a value for each name");
        let mut filled = String::new();
        let mut rest = self.text.as_str();
        while let Some((before, place)) = rest.split_once('{') {
            filled.push_str(before);
            let found = self.names.iter().zip(values).find_map(|(name, value)| {
                let after = place.strip_prefix(name)?.strip_prefix('}')?;
                Some((*value, after))
            });
            let (text, after) = found.unwrap_or(("%7B", place));
            filled.push_str(text);
            rest = after;
        }
        filled.push_str(rest);
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_http_and_is_shown_without_secrets() {
        for bad in [
            "",
            "host/path",
            "ftp://host/",
            "mailto:a@b",
            "http://me:secret@host/",
        ] {
            let error = http_url(bad).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
        let url = "https://me:secret@host:8443/a?token=b#c".parse().unwrap();
        assert_eq!(shown_url(&url), "https://host:8443/a");
    }

    #[test]
    fn a_template_changes_the_path_and_never_the_host() {
        let names = &["key", "id"];
        let template = UrlTemplate::parse("https://host/{key}?{x}={id}", names).unwrap();
        let url = template.fill(&["{id}", "7"]).unwrap();
        assert_eq!(url.as_str(), "https://host/%7Bid%7D?%7Bx}=7");
        for (text, why) in [
            ("https://{key}.host/", "in the host"),
            ("https://host/{other}", "must contain {key} or {id}"),
            ("{key}", "is not a URL"),
        ] {
            let error = UrlTemplate::parse(text, names).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
