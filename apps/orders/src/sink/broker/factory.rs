//! Creates the broker adapter from the settings.

use std::sync::Arc;

use consign_kernel::{Error, Result};

use super::{Broker, Http, Paper};
use crate::{Adapter, OrdersOptions};

/// The broker adapter that the settings select. Makes no request.
pub async fn broker(options: &OrdersOptions) -> Result<Arc<dyn Broker>> {
    options.validate()?;
    let options = &options.clone().with_files()?;
    Ok(match options.broker_adapter {
        Adapter::Paper => {
            let script = options.paper_script.parse();
            let bad =
                |error: super::BadScript| Error::invalid("orders.paper_script", error.to_string());
            Arc::new(Paper::new(options.paper_seed, script.map_err(bad)?))
        }
        Adapter::Http => Arc::new(Http::new(options)?),
    })
}
