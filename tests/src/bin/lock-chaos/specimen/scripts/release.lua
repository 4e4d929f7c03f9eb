-- Releases a lock, and hands it to the next claim in the queue.
-- KEYS: the lock, its queue, the leases of the places
-- ARGV: owner, whether it is checked, ttl of what is handed over in ms, whether the dead are skipped, prefix of channels
-- Reply: whether the lock was the owner's
redis.call('LREM', KEYS[2], 0, ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
local mine = redis.call('GET', KEYS[1]) == ARGV[1]
if not mine and ARGV[2] == '1' then return 0 end
redis.call('DEL', KEYS[1])
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
while true do
  local first = redis.call('LPOP', KEYS[2])
  if not first then break end
  local ends = tonumber(redis.call('HGET', KEYS[3], first) or '0')
  redis.call('HDEL', KEYS[3], first)
  if ARGV[4] == '0' or ends > micros then
    redis.call('SET', KEYS[1], first, 'PX', ARGV[3])
    redis.call('PUBLISH', ARGV[5] .. first, 'yours')
    return 1
  end
end
redis.call('PUBLISH', ARGV[5] .. 'all', 'free')
return 1
