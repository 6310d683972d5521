//! The reasons of decisions in words.

/// What the reason of a redirect or rejection means, and what to do about it. Reasons are as in audits:
/// `policy:<rule>`, or `actor_unknown:degrade`.
pub fn explain(reason: &str) -> String {
    let why = reason.strip_prefix("policy:").unwrap_or(reason);
    let (rule, value) = why.split_once(':').unwrap_or((why, ""));
    match rule {
        "team_write_disabled" => "writing to shared spaces is switched off in this project \
            (team_write_enabled); an operator can switch it on with governance_update"
            .to_owned(),
        "user_not_in_allowlist" => {
            "the actor is not among the users who may write to shared spaces \
            (allowlist_users)"
                .to_owned()
        }
        "kind_not_allowed" => {
            format!("shared spaces reject the kind {value} (allowed_kinds)")
        }
        "missing_evidence" => "shared spaces require evidence (require_evidence): send evidence \
            or evidence_refs"
            .to_owned(),
        "exceeds_max_chars" => {
            let (chars, most) = value.split_once('>').unwrap_or((value, "fewer"));
            format!("the text has {chars} characters, and shared spaces allow {most} (max_chars)")
        }
        "bulk_too_long" => {
            "shared spaces reject a text with is_bulk that has more than bulk_max_chars \
            characters; governance_get shows the limit"
                .to_owned()
        }
        "bulk_not_allowed" => "shared spaces reject memories with is_bulk (bulk_mode)".to_owned(),
        "actor_unknown" => {
            "the actor is no user, so the memory goes to the space of unknown actors; an \
            operator makes users with `consign memory users add`"
                .to_owned()
        }
        "unknown_space_type" => "a space is team:<name>, private:<user> or org:<name>".to_owned(),
        "private_space_of_another" => "it is another user's private space".to_owned(),
        _ => why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_of_a_redirect_is_explained() {
        for reason in [
            "policy:team_write_disabled",
            "policy:user_not_in_allowlist",
            "policy:kind_not_allowed:FACT",
            "policy:missing_evidence",
            "policy:exceeds_max_chars:2000>1200",
            "policy:bulk_too_long",
            "policy:bulk_not_allowed",
            "actor_unknown:degrade",
        ] {
            let text = explain(reason);
            assert!(text.split(' ').count() > 5, "{reason}: {text}");
            assert!(!text.contains("  "), "{text:?}");
        }
        let long = explain("policy:exceeds_max_chars:2000>1200");
        assert!(
            long.contains("2000 characters") && long.contains("allow 1200"),
            "{long}"
        );
        assert!(explain("policy:kind_not_allowed:FACT").contains("FACT"));
        assert_eq!(explain("policy:new_rule"), "new_rule");
    }
}
