-- Asks for messages about the releases of a lock, from the present lease on, until a release that
-- no client hears.
--
-- KEYS[1]  the lock
-- KEYS[2]  its state
--
-- Replies 1.

-- How long a client that listens may wait for the first grant.
local HOUR = 3600000

