-- Raises the latest token number of a lock that is held, to a number that a quorum has given out.
--
-- ARGV[1]  the owner's token
-- ARGV[2]  the token number
-- ARGV[3]  the mode; exclusive if it is left out
--
-- Replies 1, or 0 if the owner does not hold the lock in this mode, or a higher number was given out.

