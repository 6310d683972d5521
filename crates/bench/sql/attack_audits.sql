-- What a gateway has written down after a while: reports walk all of it.
INSERT INTO governance.write_audit (target_space, action, reason, payload_sha, correlation_id)
    SELECT 'private:' || n % 1000, 'allow', 'policy:allow', md5(n::text), 'attack-' || n FROM generate_series(1, 300000) n
    ON CONFLICT DO NOTHING;
