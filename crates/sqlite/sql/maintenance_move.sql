-- Moves the search for messages that may leave. ?1 the last id it has passed, ?2 whether because the file is too large.
UPDATE maintenance SET cursor = CASE WHEN ?2 THEN cursor ELSE ?1 END,
                       size_cursor = CASE WHEN ?2 THEN ?1 ELSE size_cursor END
WHERE CASE WHEN ?2 THEN size_cursor ELSE cursor END <> ?1
