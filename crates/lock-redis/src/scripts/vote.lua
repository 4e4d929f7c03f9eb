-- Grants a lock as the vote of one server of several, or names the owner that has it. Queues no claim.
--
-- KEYS[7]  the record of the server's standing, if the server must have the expected one to vote
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives, in ms
-- ARGV[3]  "count floor": how many token numbers to reserve, at most, and the last of them
-- ARGV[4]  the channel on which the client hears, if it watches the lock; or empty
-- ARGV[5]  the mode, which is not one of permits
-- ARGV[6]  the record that the ballot expects, which is not one of a quarantine
-- ARGV[7]  `i` to look whether this run of the server made the record
--
-- Replies, if granted, as acquire.lua does. If refused, "b left" or "b left tag", with the time in ms
-- until there may be room, or -1, and the beginning of the token of the owner that has the lock or waits
-- for it. If the server has another record, "a".

local record = KEYS[7]
