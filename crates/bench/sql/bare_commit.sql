INSERT INTO bare_commit (id, payload) VALUES ($1, $2)
