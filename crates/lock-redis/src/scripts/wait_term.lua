-- Comes before wait_quick.lua where a grant names its term. If the lock was granted under another term than that of the
-- inbox, the full script has to look: the time of the leases of that term is counted from its first look.
local held = redis.pcall('GETRANGE', KEYS[2], '33', '41')
held = type(held) == 'string' and string.match(held, ' t(%x%x%x%x%x%x)')
if held and held ~= string.sub(ARGV[5], -6) then
  return ARGV[6] .. ' ?'
end

