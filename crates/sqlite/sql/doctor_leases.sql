-- Every lease, for taking apart.
SELECT fence, lane, ids, tries, attempts, begun FROM lease
