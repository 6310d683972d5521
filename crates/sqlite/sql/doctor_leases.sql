-- Every lease, to be unnested.
SELECT fence, queue, ids, tries, attempts, begun FROM lease
