//! Settings of payments in types.

use std::collections::BTreeMap;

use consign_app::config::{Config, KeyPath, Problem};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{PaymentsOptions, QUEUE, RailKind, settings::PAYMENTS};

/// The settings of payments.
#[derive(Clone, Debug)]
pub(super) struct PaymentsSettings {
    pub(super) options: PaymentsOptions,
    /// Whether the rail is set.
    is_rail_set: bool,
    /// Whether the database is the one for trying consign, where nothing real happens.
    is_to_try: bool,
}

impl PaymentsSettings {
    /// Whether this process dispatches payments. The default simulated rail does so only in the database for
    /// trying consign: in any other, external workers may dispatch them.
    pub(super) fn are_dispatched(&self) -> bool {
        self.options.rail != RailKind::None && (self.is_rail_set || self.is_to_try)
    }

    /// Whether the rail is missing.
    pub(super) fn lacks_rail(&self) -> bool {
        !self.is_rail_set && !self.is_to_try
    }
}

/// The validated settings.
pub(super) fn read(config: &Config) -> Result<PaymentsSettings, Vec<Problem>> {
    let mut table = match config.tree(QUEUE) {
        Value::Object(table) => table,
        _ => Map::new(),
    };
    table.remove("tenants");
    let is_rail_set = table.contains_key("rail");
    let options: PaymentsOptions = PAYMENTS
        .options(Value::Object(table))
        .map_err(|error| vec![config.problem(KeyPath::of(QUEUE), error.to_string())])?;
    let mut problems = tenants(config).err().unwrap_or_default();
    if let Err(error) = options.validate() {
        problems.push(config.rejected(QUEUE, &error));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let address = config.address();
    Ok(PaymentsSettings {
        options,
        is_rail_set,
        is_to_try: address.is_ok_and(|address| address.is_to_try()),
    })
}

/// Tenants by the names of tokens; each must be a UUID, and each token one of the server's.
pub(super) fn tenants(config: &Config) -> Result<BTreeMap<String, Uuid>, Vec<Problem>> {
    let Value::Object(bound) = config.tree("payments.tenants") else {
        return Ok(BTreeMap::new());
    };
    let (table, tokens) = (
        KeyPath::of("payments.tenants"),
        KeyPath::of("server.tokens"),
    );
    let (mut tenants, mut problems) = (BTreeMap::new(), Vec::new());
    for (token, tenant) in bound {
        let path = table.child(&token);
        let mut entries = config.entries().keys();
        if !entries.any(|path| path.starts_with(&tokens.child(&token))) {
            let what = "server.tokens has no such token";
            problems.push(config.problem(path.clone(), what));
        }
        match tenant.as_str().map(Uuid::parse_str) {
            Some(Ok(tenant)) => drop(tenants.insert(token, tenant)),
            _ => problems.push(config.problem(path, "must be a UUID")),
        }
    }
    if problems.is_empty() {
        Ok(tenants)
    } else {
        Err(problems)
    }
}
