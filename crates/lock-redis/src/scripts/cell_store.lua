-- Writes the value beside a lock, or erases it.
--
-- KEYS[1]  the lock
-- KEYS[2]  the value: "owner token value", with the owner that wrote it and its fencing token
-- ARGV[1]  the token of the owner that holds the lock alone
-- ARGV[2]  its fencing token
-- ARGV[3]  the channel for the message about the new value
-- ARGV[4]  how long the value is kept, in ms; 0 for ever
-- ARGV[5]  the value; left out to erase it
--
-- Replies 1, or 0 if the owner does not hold the lock or there is a value with a higher token.

if not holds(ARGV[1]) then
  return 0
end

-- Compared as texts, because a number would lose digits.
local before = string.match(redis.call('GET', KEYS[2]) or '', '^%x+ (%d+) ') or ''
if #before > #ARGV[2] or (#before == #ARGV[2] and before > ARGV[2]) then
  return 0
end

-- No command after the first write may fail: an error says that nothing was written.
local value = ARGV[5] and ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[5]
if not value then
  redis.call('DEL', KEYS[2])
elseif ARGV[4] == '0' then
  redis.call('SET', KEYS[2], value)
else
  redis.call('SET', KEYS[2], value, 'PX', ARGV[4])
end
redis.pcall('PUBLISH', ARGV[3], 'changed')
return 1
