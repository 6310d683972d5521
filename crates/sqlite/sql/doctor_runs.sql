-- Every ready run, for taking apart.
SELECT run, lane, ids, tries, attempts FROM ready
