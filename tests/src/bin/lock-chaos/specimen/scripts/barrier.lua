-- Comes to a barrier, or goes away from it. Opens it when enough are there.
-- KEYS: who is there and until when, which group that is
-- ARGV: owner, how many are to be there, `come` or `go`, lease in ms, the group that it is in or -1
-- Reply: {group that is gathering, whether this one has opened it}
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
