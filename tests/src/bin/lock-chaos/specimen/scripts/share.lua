-- Adds a holder to a reader-writer lock or a semaphore, or changes the way of its hold.
-- KEYS: when the leases of the holders end, the ways of their holds, the counter
-- ARGV: owner, way (`read`, `upgradable`, `climbing`, `write`, or a number of permits), ttl in ms, limit of permits,
--       whether the other holders are checked
-- Reply: {1, token}, {0, ''} if another holder is in the way, {-1, ''} if its lease has ended
local owner, way, limit = ARGV[1], ARGV[2], tonumber(ARGV[4])
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', micros)) do
  redis.call('ZREM', KEYS[1], gone)
  redis.call('HDEL', KEYS[2], gone)
end
local had = redis.call('HGET', KEYS[2], owner)
if ARGV[5] == 'convert' and not had then return { -1, '' } end
if ARGV[5] ~= 'none' then
  local permits = tonumber(way)
  local ways = redis.call('HGETALL', KEYS[2])
  for number = 1, #ways, 2 do
    local other = ways[number + 1]
    if ways[number] ~= owner then
      if limit > 0 then
        permits = permits + tonumber(other)
        if permits > limit then return { 0, '' } end
      elseif way == 'write' or other == 'write' then
        return { 0, '' }
      elseif other == 'climbing' and had == false then
        return { 0, '' }
      elseif way ~= 'read' and other ~= 'read' then
        return { 0, '' }
      end
    end
  end
end
redis.call('ZADD', KEYS[1], string.format('%.0f', micros + ARGV[3] * 1000), owner)
redis.call('HSET', KEYS[2], owner, way)
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, 3600000) end
local token = math.max(tonumber(redis.call('GET', KEYS[3]) or '0') + 1, micros)
redis.call('SET', KEYS[3], string.format('%.0f', token), 'PX', 3600000)
return { 1, string.format('%.0f', token) }
