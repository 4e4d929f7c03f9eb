-- Gives a lease a new time to live. Never creates one.
--
-- KEYS[1]  the lock
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives from now on, in ms: at least 1
--
-- Replies 1 if renewed, 0 if the owner does not hold the lock.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
