-- Writes the value beside a lock and ends the lease of an owner that holds the lock alone, if no claim waits and no
-- client listens.
--
-- KEYS[1]  the lock
-- KEYS[2]  its state
-- KEYS[3]  the value: "owner token value", with the owner that wrote it and its fencing token
-- ARGV[1]  the owner's token
-- ARGV[2]  its fencing token
-- ARGV[3]  the value
-- ARGV[4]  the channel for the message about the new value
-- ARGV[5]  how long the value is kept, in ms; 0 for ever
-- ARGV[6]  the number of the request
--
-- Replies with the number alone if the value was written and the lease ended; or with the number and, after a space, `?`
-- if value_on.lua has to go on. The value may be written by then.

if redis.pcall('GETRANGE', KEYS[1], '0', '33') ~= ARGV[1] then
  return ARGV[6] .. ' ?'
end
local before = redis.pcall('GETRANGE', KEYS[3], '0', '53')
if type(before) ~= 'string' then
  return ARGV[6] .. ' ?'
end
-- Compared as texts, because a number would lose digits.
before = string.match(before, '^%x+ (%d+) ') or ''
if #before > #ARGV[2] or (#before == #ARGV[2] and before > ARGV[2]) then
  return ARGV[6] .. ' ?'
end
local value = ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3]
if ARGV[5] == '0' then
  redis.call('SET', KEYS[3], value)
else
  redis.call('SET', KEYS[3], value, 'PX', ARGV[5])
end
if type(redis.pcall('DEL', KEYS[1])) == 'table' then
  return ARGV[6] .. ' ?'
end
-- If this fails, a later term takes the lock for one that was not released, and waits. --terms
if redis.pcall('GETRANGE', KEYS[2], '33', '34') == ' t' then --terms
  redis.pcall('SETRANGE', KEYS[2], '34', 'r') --terms
end --terms
redis.pcall('PUBLISH', ARGV[4], 'changed')
return ARGV[6]
