-- Messages of one lane, newest first. Uses message_lane.
-- ?1 lane, ?2 smaller than this id, ?3 at most this many.
SELECT id FROM message WHERE lane = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3
