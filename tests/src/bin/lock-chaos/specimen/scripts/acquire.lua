-- Takes a lock that is free or handed over, or says when it may be free.
-- KEYS: the lock, its counter, its queue, the leases of the places
-- ARGV: owner, ttl in ms (0: none), whether to queue, lease in the queue in ms, ttl of what is handed over in ms,
--       whether the dead are skipped, how many tokens, whether the counter follows the clock, prefix of channels
-- Reply: {1, first token} or {0, ms}
local owner, ttl, claim = ARGV[1], tonumber(ARGV[2]), ARGV[5]
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]

local function head()
  while true do
    local first = redis.call('LINDEX', KEYS[3], 0)
    if not first then return nil end
    local ends = tonumber(redis.call('HGET', KEYS[4], first) or '0')
    if ARGV[6] == '0' or ends > micros then return first end
    redis.call('LPOP', KEYS[3])
    redis.call('HDEL', KEYS[4], first)
  end
end

local holder = redis.call('GET', KEYS[1])
if not holder then
  local first = head()
  if first and first ~= owner then
    redis.call('SET', KEYS[1], first, 'PX', claim)
    redis.call('LPOP', KEYS[3])
    redis.call('HDEL', KEYS[4], first)
    redis.call('PUBLISH', ARGV[9] .. first, 'yours')
    holder = first
  end
end

if holder and holder ~= owner then
  if ARGV[3] == '1' then
    if redis.call('HSET', KEYS[4], owner, string.format('%.0f', micros + ARGV[4] * 1000)) == 1 then
      redis.call('RPUSH', KEYS[3], owner)
    end
    redis.call('PEXPIRE', KEYS[3], 60000)
    redis.call('PEXPIRE', KEYS[4], 60000)
  end
  return { 0, tostring(redis.call('PTTL', KEYS[1])) }
end

if ttl > 0 then
  redis.call('SET', KEYS[1], owner, 'PX', ttl)
else
  redis.call('SET', KEYS[1], owner)
end
redis.call('LREM', KEYS[3], 0, owner)
redis.call('HDEL', KEYS[4], owner)
local first = tonumber(redis.call('GET', KEYS[2]) or '0') + 1
if ARGV[8] == '1' and micros > first then first = micros end
redis.call('SET', KEYS[2], string.format('%.0f', first + ARGV[7] - 1), 'PX', 3600000)
return { 1, string.format('%.0f', first) }
