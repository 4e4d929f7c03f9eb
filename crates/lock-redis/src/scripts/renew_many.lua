-- Gives many exclusive leases a new time to live. Never creates one.
--
-- KEYS     three of each lock: the lock, its state and its queue
-- ARGV     three for each lock, in their order: the owner's token; how long the lease lives from now on, in
--          ms: at least 1; and the inbox on which the client hears, if it watches the lock, or empty
--
-- Replies with one answer for each lock, in their order: 0 or the demand, as for a single lease, or `?` if the
-- script for a single lease has to decide.

local ALL = KEYS
-- The keys of the lock at hand, for the other parts.
local KEYS = {}

