-- What is measured, not the catalogs.
VACUUM (ANALYZE)
    consign.message, consign.ready, consign.lease, consign.attempt,
    consign_control.job, consign_control.attempt
