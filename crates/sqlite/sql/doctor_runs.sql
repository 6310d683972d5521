-- Every ready run, for taking apart.
SELECT run, queue, ids, tries, attempts FROM ready
