-- One settle as one row, in the order of the reports; parameters as in consign.settle.
-- Outcomes are left out when everything was delivered, which is the usual case.
SELECT bool_and(repeated) AS repeated, array_agg(id) AS ids, array_agg(attempt_no) AS attempt_nos,
       CASE WHEN bool_or(outcome <> 'delivered') THEN array_agg(outcome) END AS outcomes,
       CASE WHEN bool_or(outcome <> 'delivered') THEN array_agg(next_due_at) END AS next_due_at,
       CASE WHEN bool_or(outcome <> 'delivered') THEN array_agg(state) END AS states
    FROM consign.settle($1, $2, $3, $4, $5, $6, $7)
