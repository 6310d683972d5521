-- One settle as one row, in the order of the reports; parameters as in consign.settle.
SELECT * FROM consign.settle_packed($1, $2, $3, $4, $5, $6, $7)
