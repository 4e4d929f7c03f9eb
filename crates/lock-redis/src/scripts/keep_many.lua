-- Keeps the places of many exclusive claims. Gives no claim a place, and grants nothing.
--
-- KEYS     four of each lock: the lock, its state, its queue and its places
-- ARGV     five for each claim, in their order: the owner's token; in ms how long the place is kept and how
--          long a lease lives that is handed over; how many consecutive token numbers to reserve, at most; and
--          the inbox on which the client hears
--
-- Replies with one answer for each claim, in their order: "q left micros", as for a single claim, or `?` if the
-- script for a single claim has to decide.

local ALL = KEYS
-- The keys of the lock at hand, for the other parts.
local KEYS = {}

