-- Prolongs the lease of one of several holders, or ends it.
-- KEYS: when the leases of the holders end, the ways of their holds
-- ARGV: owner, ttl in ms, 0 to end it
-- Reply: whether it had not ended
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local ends = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '0')
if ends > micros and tonumber(ARGV[2]) > 0 then
  redis.call('ZADD', KEYS[1], string.format('%.0f', micros + ARGV[2] * 1000), ARGV[1])
  return 1
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return ends > micros and 1 or 0
