-- Holds a key of lane `attacked` for as long as the transaction stays open.
BEGIN;
SELECT consign.enqueue('attacked', '1', 'same');
