INSERT INTO consign.idle (queue, sleeps_until, worker)
    SELECT $1, clock_timestamp() + interval '5 seconds', gen_random_uuid()
        WHERE NOT EXISTS (SELECT FROM consign.idle WHERE queue = $1 AND sleeps_until > clock_timestamp())
