-- Gives the lease of an owner that holds a lock alone a new time to live. Never creates one.
--
-- It names one key, which exists while the lease does. So it also works while the slot of the key is moved. A renewal
-- that would shorten the lease may be late, so the full script decides.
--
-- KEYS[1]  the lock
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives from now on, in ms: at least 1
-- ARGV[3]  the number of the request
--
-- Replies with the number alone if no claim waits, or with the number and, after a space, `m` if the lock has its
-- mark, so that a claim may wait, or `?` if the full script has to decide.

local value = redis.pcall('GETRANGE', KEYS[1], '0', '33')
local is_marked = value == ARGV[1] .. 'w'
if value ~= ARGV[1] and not is_marked or redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then
  return ARGV[3] .. ' ?'
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return is_marked and ARGV[3] .. ' m' or ARGV[3]
