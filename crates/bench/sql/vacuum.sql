-- What vacuum has to do after the work; statistics are no part of it.
VACUUM
    consign.message, consign.ready, consign.lease, consign.attempt,
    consign_control.job, consign_control.attempt
