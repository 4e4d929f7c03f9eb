-- From here on the lock is shared.

local name = ARGV[5] .. ':' .. ARGV[1]
if not shared_until(name) then
  return 0
end
local range, before = string.match(call('HGET', KEYS[6], name) or '', '^(%d+ %d+) ?(.*)$')
if not range then
  return 0
end
-- Not refused for want of memory, and then nor is what follows.
call('PEXPIRE', KEYS[1], lease)
-- All of a group have the same tokens.
local fresh = not is_joint() and further('')
local hears = inbox ~= '' and inbox or before
share(name, lease, hears == '' and range or range .. ' ' .. hears)
if KEYS[7] then
  use_permits(lease)
end
return renewed(fresh, inbox ~= '')
