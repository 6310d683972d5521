-- Settings that bear on the figures, and every other one that is not at its default. $1: names
-- that are always told.
SELECT name, current_setting(name) AS value FROM pg_settings
    WHERE name = ANY ($1)
        OR (source IN ('configuration file', 'command line', 'database', 'user', 'environment variable')
            AND category NOT LIKE 'Reporting and Logging%' AND category NOT LIKE 'Client Connection Defaults / Locale%'
            AND category NOT LIKE 'File Locations%' AND category NOT LIKE 'Connections and Authentication%'
            AND category NOT LIKE 'Preset Options%')
    ORDER BY name
