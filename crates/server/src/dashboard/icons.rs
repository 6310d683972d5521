//! The icons of the navigation: outlines in a square of 16 by 16.

/// The outline for a page of the navigation; one for all pages of apps.
pub(super) fn of(path: &str) -> &'static str {
    match path {
        "/" => "M1.5 9H4l2.5-6 3 10 2-4h3",
        "/ui/queues" => "M2 3.5h12M2 8h12M2 12.5h8",
        "/ui/messages" => "M2 3.5h12v9H2zM2 4.5l6 4.5 6-4.5",
        "/ui/dead" => "M8 2l6.5 11.5h-13zM8 6.5v3M8 11.4v.2",
        "/ui/schedules" => "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 5v3.2l2.2 1.3",
        "/ui/processes" => {
            "M4 4h8v8H4zM6.2 1.5V4M9.8 1.5V4M6.2 12v2.5M9.8 12v2.5M1.5 6.2H4M1.5 9.8H4M12 6.2h2.5M12 9.8h2.5"
        }
        "/ui/audit" => "M3.5 2h6l3 3v9h-9zM6 7h4M6 10h4",
        "/ui/history" => "M2 8a6 6 0 1 1 1.8 4.3M2 13v-3h3M8 5v3l2 1.5",
        _ => "M2.5 2.5h4.5v4.5H2.5zM9 2.5h4.5v4.5H9zM2.5 9h4.5v4.5H2.5zM9 9h4.5v4.5H9z",
    }
}
