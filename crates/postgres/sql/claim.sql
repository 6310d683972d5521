-- One claim as one row: $1 queue, $2 owner, $3 limit, $4 ttl, $5 where to start looking, $6 most bytes.
SELECT * FROM consign.claim_packed($1, $2, $3, $4, $5, $6)
