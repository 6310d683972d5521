//! The apps that live in this crate.

use consign_kernel::migrations;

use crate::migrate::Component;

pub(crate) fn components() -> Vec<Component> {
    vec![MEMORY]
}

const MEMORY: Component = Component {
    migrations: migrations!["memory";
        (1, "tables", "../migrations/memory/0001_tables.sql"),
        (2, "outbox", "../migrations/memory/0002_outbox.sql"),
        (3, "follow", "../migrations/memory/0003_follow.sql"),
        (4, "search", "../migrations/memory/0004_search.sql"),
        (5, "reconcile", "../migrations/memory/0005_reconcile.sql"),
        (6, "roles", "../migrations/memory/0006_roles.sql"),
    ],
    checks: &[("memories", include_str!("../sql/doctor_memory.sql"))],
};
