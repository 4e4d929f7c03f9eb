-- The lock is held, or its keys are not for a quick script.
if is_later() or value.err or value == '' or string.byte(value) == 42
  or string.sub(value, 1, 32) == ARGV[1] and #value > 32 then
  return ARGV[5] .. ' ?'
end
local left = call('PTTL', KEYS[1])
if value ~= ARGV[1] then
  return ARGV[5] .. string.format(' b %.0f', left)
end
