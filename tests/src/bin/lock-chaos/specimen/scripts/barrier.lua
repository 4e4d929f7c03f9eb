-- Arrives at a barrier, or leaves it. Opens it when enough owners are there.
-- KEYS: the owners there and their ends, the number of the group
-- ARGV: owner, how many owners open it, `come` or `go`, lease in ms, the owner's group or -1
-- Reply: {group that gathers, whether this owner has opened it}
local time = redis.call('TIME')
local millis = time[1] * 1000 + math.floor(time[2] / 1000)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', millis)) do
  redis.call('ZREM', KEYS[1], gone)
end
local group = tonumber(redis.call('GET', KEYS[2]) or '0')
if ARGV[3] == 'go' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return { group, 0 }
end
if tonumber(ARGV[5]) >= 0 and tonumber(ARGV[5]) ~= group then return { group, 0 } end
redis.call('ZADD', KEYS[1], millis + ARGV[4], ARGV[1])
redis.call('PEXPIRE', KEYS[1], 60000)
local opens = redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2])
if opens then
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[2], group + 1, 'PX', 3600000)
end
return { group, opens and 1 or 0 }
