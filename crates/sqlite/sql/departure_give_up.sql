-- Gives up the departure that has removed nothing yet, if there is one.
DELETE FROM departure WHERE ended_at IS NULL AND state <> 'leaving'
