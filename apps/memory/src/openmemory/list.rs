//! Reading one memory by id, or all of them page by page.

use serde_json::Value;
use tokio::time::Instant;

use super::{Answer, OpenMemory, dialect::DialectState, row};
use crate::{BackendError, ItemPage, Listing, MemoryItem};

/// Page size, and page size if the texts of a full page exceed the answer limit.
const PAGE: usize = 100;
const PAGE_OF_LONG: usize = 10;

impl OpenMemory {
    pub(super) async fn read_until(&self, id: &str, ends: Instant) -> Answer<Option<MemoryItem>> {
        self.can_read(ends).await?;
        match self.get(self.at(&["memory", id]), ends).await {
            Ok(row) => Ok(row::item(&row).filter(|item| item.id == id)),
            // Another tenant's, or missing.
            Err(BackendError::Api {
                status: 403 | 404, ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a memory; rows of other programs stay.
    pub(super) async fn remove_until(&self, id: &str, ends: Instant) -> Answer<bool> {
        if self.read_until(id, ends).await?.is_none() {
            return Ok(false);
        }
        self.remove(id, ends).await.map(|()| true)
    }

    /// The server lists all rows, newest first; the cursor is the number of rows seen. A page ends early
    /// when half of the time is used.
    pub(super) async fn list_until(&self, listing: &Listing, ends: Instant) -> Answer<ItemPage> {
        self.can_read(ends).await?;
        let mut seen: usize = match listing.cursor.as_deref().map(str::parse) {
            None => 0,
            Some(Ok(seen)) => seen,
            Some(Err(_)) => {
                return Err(BackendError::Api {
                    status: 400,
                    message: "cursor: is none of a page of this server".into(),
                    retry_in: None,
                });
            }
        };
        let enough = Instant::now() + ends.saturating_duration_since(Instant::now()) / 2;
        let mut items = Vec::new();
        let mut most = PAGE;
        loop {
            let page = match self.get(self.page(None, seen, most), ends).await {
                Err(BackendError::Protocol(_)) if most > PAGE_OF_LONG => {
                    most = PAGE_OF_LONG;
                    continue;
                }
                page => page?,
            };
            let Some(rows) = page.get("items").and_then(Value::as_array) else {
                return Err(BackendError::Protocol(
                    "/memory/all answers no items".into(),
                ));
            };
            for row in rows {
                seen += 1;
                let item = row::item(row);
                items.extend(item.filter(|item| {
                    listing.spaces.contains(&item.space) && listing.filter.fits(item)
                }));
                if items.len() >= listing.limit as usize {
                    return Ok(page_of(items, Some(seen)));
                }
            }
            if rows.len() < most {
                return Ok(page_of(items, None));
            }
            if Instant::now() >= enough {
                return Ok(page_of(items, Some(seen)));
            }
        }
    }

    async fn can_read(&self, ends: Instant) -> Answer<()> {
        match self.detected_dialect(ends).await? {
            DialectState::Js1 | DialectState::JsHead => Ok(()),
            DialectState::Python => Err(BackendError::Protocol(
                "this OpenMemory (Python) can neither read nor list single memories; search instead"
                    .into(),
            )),
        }
    }
}

fn page_of(items: Vec<MemoryItem>, seen: Option<usize>) -> ItemPage {
    ItemPage {
        items,
        next: seen.map(|seen| seen.to_string()),
    }
}
