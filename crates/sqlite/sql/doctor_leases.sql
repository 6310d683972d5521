-- Every lease, for taking apart.
SELECT fence, queue, ids, tries, attempts, begun FROM lease
