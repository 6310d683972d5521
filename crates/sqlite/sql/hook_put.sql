-- Registers an app's hook on a queue. ?1 queue, ?2 app.
INSERT INTO hook (queue, app) VALUES (?1, ?2) ON CONFLICT (queue) DO UPDATE SET app = excluded.app
