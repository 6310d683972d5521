//! Settings of memories in types.

use consign_app::config::{Config, KeyPath, Problem};

use crate::{MemoryOptions, QUEUE, settings::MEMORY};

/// The options, or the first problem with them.
pub(crate) fn read(config: &Config) -> Result<MemoryOptions, Problem> {
    let options: MemoryOptions = MEMORY
        .options(config.tree(QUEUE))
        .map_err(|error| config.problem(KeyPath::of(QUEUE), error.to_string()))?;
    options
        .validate()
        .map_err(|error| config.rejected(QUEUE, &error))?;
    Ok(options)
}
