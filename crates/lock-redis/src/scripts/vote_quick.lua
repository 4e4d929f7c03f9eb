-- Grants a lock that is free as the vote of one server among several, to be held alone; or says which owner has
-- it. Queues no claim.
--
-- KEYS[1]  the lock
-- KEYS[2]  its state
-- KEYS[3]  the record of the server's standing, if it must not vote while it is kept out
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives, in ms
-- ARGV[3]  how long the state is kept, in ms
-- ARGV[4]  the clock that stands for the floor, in us, of 16 digits
-- ARGV[5]  what the state says after that clock
--
-- Replies "state before" or "state" if granted: the tokens follow from the two clocks. "b left" or "b left tag" if
-- an owner holds the lock alone; "a quarantine" if the server is kept out; "?" if the full script has to decide.

local record = KEYS[3]
