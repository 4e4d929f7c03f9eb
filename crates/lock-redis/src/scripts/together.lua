-- Grants several exclusive locks, all or none of them. Queues no claim.
--
-- KEYS     four of each lock: the lock, its state, its queue and its places
-- ARGV     four for each lock, in their order: the owner's token; how long the lease lives, in ms;
--          how many consecutive token numbers to reserve, at most; and the inbox on which the client
--          hears, if it watches the lock, or empty
--
-- Replies with one answer for each lock, in their order. If all are granted, "first last", or "first
-- last left demand" for a lock that was held already, as in acquire.lua. If none is, the time in ms until
-- there may be room, or -1 for a lock without such a time, or for a free lock.

local ALL = KEYS
-- The keys of the lock at hand, for the other parts.
local KEYS = {}

