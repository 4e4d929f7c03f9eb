-- The keys of the scripts that grant, renew and release.
--
-- KEYS[1]  the lock: a string, which is the token of the owner that holds it alone, or a marker that
--          begins with `*` if several share it
-- KEYS[2]  its fence: "first last", the token numbers of the latest grant; "first last+latest" if it
--          has reserved more since; and after a space the channel on which its holder hears, if any
-- KEYS[3]  its queue: a list of those who wait, in order, each by name
-- KEYS[4]  their places: a hash from name to what they wait for
-- KEYS[5]  those who share it: a sorted set of names by the end of the lease, in ms
-- KEYS[6]  what is known of them: a hash from name to "first last" or "first last inbox", and
--          besides `upgradable`, the name of the one there is, and `taken`, the sum of the permits
-- KEYS[7]  how many permits it has: "declared limit state", the number that its users declare, the
--          number that there is by now, and `open` or `closed`. Only where permits are asked about
--
-- A name is how the lock is held and by whom, `mode:owner`. Modes are `x` exclusive, `s` shared,
-- `u` upgradable, `p2/5` two permits of a lock that was declared to have five, and `j` with the secret
-- of a group joint.

local call = redis.call

