-- Grants a lock as the vote of one server among several, or says who has it. Queues nobody.
--
-- KEYS[7]  the record of the server's standing, if it must not vote while it is kept out
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives, in ms
-- ARGV[3]  "count floor": how many token numbers to reserve, at most, and the last of them
-- ARGV[4]  the channel on which the client hears, if it watches the lock; or empty
-- ARGV[5]  the mode, which is not one of permits
--
-- Replies, if granted, as when a lock is acquired. If refused, "b left" or "b left tag", with the time in
-- ms until there may be room, or -1, and the beginning of the token of the owner who has the lock or
-- waits for it. If the server is kept out, "a quarantine".

local record = KEYS[7]
