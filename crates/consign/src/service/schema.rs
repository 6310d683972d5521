//! Whether the schema still fits and the disk has room, for `/readyz`.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use consign_kernel::Result;

use crate::database::{self, Address, Apps};

/// The check needs a connection of its own; probes may come more often.
const GOOD_FOR: Duration = Duration::from_secs(5);

/// The check, remembered while it was good.
#[derive(Clone, Debug)]
pub(super) struct Check {
    address: Address,
    apps: Apps,
    good_at: Arc<Mutex<Option<Instant>>>,
}

impl Check {
    pub(super) fn new(address: Address, apps: Apps) -> Self {
        // The database was just opened, and that includes this check.
        let good_at = Arc::new(Mutex::new(Some(Instant::now())));
        Self {
            address,
            apps,
            good_at,
        }
    }

    pub(super) async fn fits(self) -> Result<()> {
        database::check_room(&self.address)?;
        let good_at = *self.lock();
        if good_at.is_some_and(|at| at.elapsed() < GOOD_FOR) {
            return Ok(());
        }
        let fits = database::schema(&self.address, &self.apps).await?.check();
        *self.lock() = fits.is_ok().then(Instant::now);
        fits
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.good_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
