
local function refused(left, owner)
  local tag = owner and #owner == 32 and string.match(owner, '^(%x%x%x%x%x%x%x%x)%x+$')
  return tag and 'b ' .. left .. ' ' .. tag or 'b ' .. left
end

-- Held by one alone, and nobody waits. This is all that happens where many want a lock.
if value and value ~= ARGV[1] and string.byte(value) ~= 42 and not ARGV[7] and call('EXISTS', KEYS[3]) == 0 then
  return refused(call('PTTL', KEYS[1]), value)
end

