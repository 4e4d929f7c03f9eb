-- Stores the value beside a lock.
-- KEYS: the lock, the value
-- ARGV: owner, whether it is checked, the value
-- Reply: whether it was stored
if ARGV[2] == '1' and redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[3], 'PX', 3600000)
return 1
