//! What can be wrong between ledger and messages is found and named.
