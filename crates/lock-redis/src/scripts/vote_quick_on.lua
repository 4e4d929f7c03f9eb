local before = redis.pcall('GET', KEYS[2])
local time = call('TIME')
local is_set = #time[1] == 10 and time[1] > '1577836799'
local is_near = is_set and ARGV[4] > time[1] - 1 .. '' and ARGV[4] < time[1] + 2 .. ''
-- Whether there is no state, or one with a clock after 2019 that no claim and no client has flagged.
local is_plain = not before or not before.err and before > '15778368'
  and string.find(before, '^%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d[-123]%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x')
if is_near and is_plain and (not before or before < ARGV[4]) and call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local state = ARGV[4] .. ARGV[5]
  call('SET', KEYS[2], state, 'PX', ARGV[3])
  return before and state .. ' ' .. before or state
end

-- A later version of the format is told of by the full script.
if not is_plain and string.byte(before.err or before) == 118 then
  return '?'
end
local value = call('GETRANGE', KEYS[1], 0, 33)
local owner = string.sub(value, 1, 32)
if value == '' or string.byte(value) == 42 or owner == ARGV[1] then
  return '?'
end
local tag = #owner == 32 and (#value == 32 or value == owner .. 'w') and string.match(owner, '^(%x%x%x%x%x%x%x%x)%x+$')
return string.format('b %.0f', call('PTTL', KEYS[1])) .. (tag and ' ' .. tag or '')
