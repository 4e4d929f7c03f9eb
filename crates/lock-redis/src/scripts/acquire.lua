-- Grants a lock, gives the request a place in the queue, or says when to ask again.
--
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives, in ms
-- ARGV[3]  how many consecutive token numbers to reserve, at most
-- ARGV[4]  the channel on which the client hears, if it watches the lock; or empty
-- ARGV[5]  the mode; exclusive if it is left out
-- ARGV[6]  "limit place claim", if the request may be queued: how many may wait, and in ms how long
--          the place is kept and how long a lease lives that is handed over; or empty
-- ARGV[7]  the mode in which the owner holds the lock already, if that lease is to be converted
--
-- Replies, if granted, "first last", the tokens; or "first last left demand", with what is left of the
-- lease in ms, and `w` if somebody waits in the queue, `q` if not. If queued, "q left micros", with the
-- server's clock. If refused, the integer left. `left` is the time in ms until there may be room, or
-- -1 if that has no end.

local value = call('GET', KEYS[1])

