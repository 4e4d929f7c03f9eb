-- Grants an exclusive lease on a free lock, or says that the lock is held. Queues no claim.
--
-- KEYS[1]  the lock
-- KEYS[2]  its state
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives, in ms
-- ARGV[3]  how long the state is kept, in ms
-- ARGV[4]  what the state says of the owner: `-` and how its token begins
-- ARGV[5]  the number of the request
--
-- Replies with the number and, after a space,
--
--   state before   if granted: the new state, and the one before, if there was one. The tokens follow from
--                  the two clocks
--   r left state   if the owner holds the lock already: what is left of the lease, in ms
--   b left         if another owner holds it alone
--   ?              if the full script has to decide

local call = redis.call

