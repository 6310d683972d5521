-- Ten messages of a mebibyte, made by the server.
SELECT count(consign.enqueue('large', to_jsonb(n || repeat('x', 1048000)))) FROM generate_series(1, 10) n;
