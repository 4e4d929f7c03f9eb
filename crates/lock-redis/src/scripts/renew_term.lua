-- Gives the lease of an owner that holds a lock alone a new time to live, where the state says how long leases live.
-- Never creates one.
--
-- While the slot of the keys is moved, the state is no key of the call but an argument. The script then reads the state
-- only if this server has it. Without the state, a lease is known to be noted in full if more than a second is left of
-- it: only a lease that was handed over is shorter at first, and that one is no longer than a second.
--
-- KEYS[1]  the lock
-- KEYS[2]  its state, if the slot is not being moved
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives from now on, in ms: at least 1
-- ARGV[3]  the state, if the slot is being moved; or empty
-- ARGV[4]  the number of the request
--
-- Replies as renew_quick.lua. The full script also decides if the state knows of no lease that is as long.

local value = redis.pcall('GETRANGE', KEYS[1], '0', '33')
if value ~= ARGV[1] and value ~= ARGV[1] .. 'w' then
  return ARGV[4] .. ' ?'
end
local wanted, left = tonumber(ARGV[2]), redis.call('PTTL', KEYS[1])
local state = redis.pcall('GETRANGE', KEYS[2] or ARGV[3], '33', '74')
local lease = type(state) == 'string' and string.match(state, ' t%x+%.(%d+)')
if not KEYS[2] and (state == '' or type(state) ~= 'string') then
  lease = (left > 1000 or wanted <= 1000) and wanted
end
if not lease or tonumber(lease) < wanted or left > wanted then
  return ARGV[4] .. ' ?'
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return #value == 32 and ARGV[4] or ARGV[4] .. ' m'
