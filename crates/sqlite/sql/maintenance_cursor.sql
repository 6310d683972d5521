-- The last id that the search for messages that may leave has passed. ?1 whether because the file is too large.
SELECT CASE WHEN ?1 THEN size_cursor ELSE cursor END FROM maintenance
