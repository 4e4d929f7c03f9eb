-- Has the releases of a lock be told, from the present lease on, for as long as they are heard.
--
-- KEYS[1]  the lock
-- KEYS[2]  its state
--
-- Replies 1.

-- How long a client that listens may wait for the first grant.
local HOUR = 3600000

