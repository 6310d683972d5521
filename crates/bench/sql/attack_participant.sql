-- Holds a participant's numbers for as long as the transaction stays open.
BEGIN;
SELECT consign.bump_participant_outbox_seq('bank-a');
