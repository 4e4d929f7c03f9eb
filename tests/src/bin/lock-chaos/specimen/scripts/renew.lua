-- Prolongs the lease of a lock.
-- KEYS: the lock
-- ARGV: owner, ttl in ms, whether the key is set even if it is absent
-- Reply: whether the lock is the owner's
if ARGV[3] == '1' then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
