local time = call('TIME')
local is_set = #time[1] == 10 and time[1] > '1577836799'
local is_near = is_set and ARGV[4] > time[1] - 1 .. '' and ARGV[4] < time[1] + 2 .. ''
if is_near and is_plain and (not before or before < ARGV[4]) and call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local state = ARGV[4] .. ARGV[5]
  call('SET', KEYS[2], state, 'PX', ARGV[3])
  return before and state .. ' ' .. before or state
end

if is_later() then
  return '?'
end
local value = call('GETRANGE', KEYS[1], 0, 33)
local owner = string.sub(value, 1, 32)
if value == '' or string.byte(value) == 42 or owner == ARGV[1] then
  return '?'
end
local is_whole = #value == 32 or value == owner .. 'w'
return refused(call('PTTL', KEYS[1]), is_whole and owner)
