-- Every ready batch, to be unnested.
SELECT batch, queue, ids, tries, attempts FROM ready
