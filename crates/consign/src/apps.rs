//! The apps of this binary: one line each.

use consign_app::Registry;

/// The engine's settings and every app.
pub static REGISTRY: Registry = crate::registry(&[
    #[cfg(feature = "orders")]
    &consign_orders::OrdersApp,
    #[cfg(feature = "payments")]
    &consign_payments::PaymentsApp,
    #[cfg(feature = "memory")]
    &consign_memory::MemoryApp,
    #[cfg(feature = "scm")]
    &consign_scm_app::ScmApp,
]);
