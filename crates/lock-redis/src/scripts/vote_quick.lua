-- Grants an exclusive lease on a free lock as the vote of one server of several, or says which owner has the lock.
-- Queues no claim.
--
-- KEYS[1]  the lock
-- KEYS[2]  its state
-- KEYS[3]  its queue
-- KEYS[4]  the record of the server's standing, if the server must have the expected one to vote
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives, in ms
-- ARGV[3]  how long the state is kept, in ms
-- ARGV[4]  the clock that stands for the floor, in us: 16 digits
-- ARGV[5]  the rest of the state, after that clock; with the inbox of the client, if it watches the lock
-- ARGV[6]  the record that the ballot expects, which is not one of a quarantine
-- ARGV[7]  `i` to look whether this run of the server made the record
--
-- Replies "state before" or "state" if granted: the tokens follow from the two clocks. "b left" or "b left tag" if
-- an owner holds the lock alone; "a" if the server has another record; "?" if the full script has to decide.

local record = KEYS[4]
