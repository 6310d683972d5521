use super::*;

#[test]
fn times_are_read_as_forms_and_programs_write_them() {
    let at = |text: &str| time("since", text).unwrap();
    let noon = at("2026-11-16T12:00:00Z");
    assert!(noon.is_some());
    for same in [
        "2026-11-16T12:00",
        " 2026-11-16 12:00:00 ",
        "2026-11-16T13:00:00+01:00",
    ] {
        assert_eq!(at(same), noon, "{same}");
    }
    assert_eq!(at("  "), None);
    assert!(at("2026-11-16").is_some());
    for bad in ["yesterday", "12:00", "2026-13-01T00:00"] {
        assert!(time("since", bad).is_err(), "{bad}");
    }
}

#[test]
fn a_link_contains_the_filter_as_given() {
    let log = AuditLogInfo {
        name: "parcels",
        tab: "",
        file: "",
        csv: "",
        columns: &[],
        actions: &[],
        filters: &[AuditLogFilter {
            name: "space",
            label: "Space",
            words: &[],
        }],
    };
    let wanted = AuditQuery::of(&[("actor", " a&b "), ("space", "team:x")]);
    assert_eq!(
        wanted.link(&log, false),
        "&of=parcels&actor=a%26b&space=team%3Ax"
    );
    assert_eq!(AuditQuery::default().link(&log, true), "");
}
