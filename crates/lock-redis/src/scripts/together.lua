-- Grants several locks to be held alone, all or none of them. Nobody is queued.
--
-- KEYS     four of each lock: the lock, its state, its queue and its places
-- ARGV     four for each lock, in the same order: the owner's token; how long the lease lives, in ms;
--          how many consecutive token numbers to reserve, at most; and the inbox on which the client
--          hears, if it watches the lock, or empty
--
-- Replies with one answer for each lock, in the same order. If all are granted, "first last", or "first
-- last left demand" for one that was held already, as when it is acquired. If none is, the time in ms until
-- there may be room, or -1 if that has no end, or for a lock that is free.

local ALL = KEYS
-- The keys of the lock that is looked at, as the other parts know them.
local KEYS = {}

