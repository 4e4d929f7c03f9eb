-- Gives the lease of an owner that holds a lock alone a new time to live. Never creates one.
--
-- It names one key, which exists while the lease does. So it also works while the slot of the key is moved.
--
-- KEYS[1]  the lock
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives from now on, in ms: at least 1
-- ARGV[3]  the number of the request
--
-- Replies with the number alone if no claim waits, or with the number and, after a space, `m` if the lock has its
-- mark, so that a claim may wait, or `?` if the full script has to decide.

local value = redis.pcall('GETRANGE', KEYS[1], '0', '33')
if value == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return ARGV[3]
elseif value == ARGV[1] .. 'w' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return ARGV[3] .. ' m'
end
return ARGV[3] .. ' ?'
