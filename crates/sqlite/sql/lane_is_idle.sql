-- Whether a lane has no unfinished message and no blocked group. ?1 lane.
-- Each look-up uses the index or primary key that begins with the lane.
SELECT NOT EXISTS (SELECT 1 FROM ready WHERE lane = ?1)
   AND NOT EXISTS (SELECT 1 FROM lease WHERE lane = ?1)
   AND NOT EXISTS (SELECT 1 FROM waiting WHERE lane = ?1)
   AND NOT EXISTS (SELECT 1 FROM held WHERE lane = ?1)
   AND NOT EXISTS (SELECT 1 FROM turn WHERE lane = ?1)
