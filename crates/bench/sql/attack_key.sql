-- Holds a key of queue `attacked` for as long as the transaction stays open.
BEGIN;
SELECT consign.enqueue('attacked', '1', 'same');
