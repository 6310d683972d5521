-- $1 queue, $2 how many.
SELECT s.now, s.first_at, s.slots, (extract(epoch FROM s.apart) * 1000000)::bigint AS apart_us
    FROM consign.reserve_slots($1, $2) s
