SELECT NOT EXISTS (SELECT FROM consign.ready) AND NOT EXISTS (SELECT FROM consign.lease) AS nothing_left
