local before = redis.pcall('GET', KEYS[2])
local time = call('TIME')
local is_near = ARGV[4] > time[1] - 1 .. '' and ARGV[4] < time[1] + 2 .. ''
local is_plain = not before or not before.err and #before > 32 and before < ARGV[4]
if is_near and is_plain and call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local state = ARGV[4] .. ARGV[5]
  call('SET', KEYS[2], state, 'PX', ARGV[3])
  return before and state .. ' ' .. before or state
end

local value = call('GETRANGE', KEYS[1], 0, 33)
local owner = string.sub(value, 1, 32)
if value == '' or string.byte(value) == 42 or owner == ARGV[1] then
  return '?'
end
local tag = #owner == 32 and (#value == 32 or value == owner .. 'w') and string.match(owner, '^(%x%x%x%x%x%x%x%x)%x+$')
return string.format('b %.0f', call('PTTL', KEYS[1])) .. (tag and ' ' .. tag or '')
