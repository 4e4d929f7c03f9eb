-- Stores a value beside a lock.
-- KEYS: the lock, the value
-- ARGV: owner, whether it is checked, then the fields to set, each with its text
-- Reply: whether it was stored
if ARGV[2] == '1' and redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], unpack(ARGV, 3))
redis.call('PEXPIRE', KEYS[2], 3600000)
return 1
