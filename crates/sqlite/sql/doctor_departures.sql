-- Departures that are under way although an earlier one of the same messages is.
SELECT later.id, earlier.id, later.first, later.last FROM departure AS later
CROSS JOIN departure AS earlier
WHERE earlier.id < later.id AND earlier.ended_at IS NULL AND later.ended_at IS NULL
      AND earlier.first <= later.last AND later.first <= earlier.last
