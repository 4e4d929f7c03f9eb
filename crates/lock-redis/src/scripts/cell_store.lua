-- Writes the value beside a lock, or erases it.
--
-- KEYS[1]  the lock
-- KEYS[2]  the value: "owner token value", of whom wrote it and with which fencing token
-- ARGV[1]  the token of the owner that holds the lock alone
-- ARGV[2]  its fencing token
-- ARGV[3]  the channel to tell of it
-- ARGV[4]  the value; nothing is left if it is left out
--
-- Replies 1, or 0 if the owner does not hold the lock or there is a value with a higher token.

if not holds(ARGV[1]) then
  return 0
end

-- Compared as texts, so that every number counts.
local before = string.match(redis.call('GET', KEYS[2]) or '', '^%x+ (%d+) ') or ''
if #before > #ARGV[2] or (#before == #ARGV[2] and before > ARGV[2]) then
  return 0
end

if ARGV[4] then
  redis.call('SET', KEYS[2], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[4])
else
  redis.call('DEL', KEYS[2])
end
redis.pcall('PUBLISH', ARGV[3], 'changed')
return 1
