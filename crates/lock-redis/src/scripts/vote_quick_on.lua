-- Of a flagged state, the fields. A claim that waits may be that of the ballot, whose place the full script gives up.
local fields = not is_plain and type(before) == 'string' and string.byte(before) == 119 and string.sub(before, 35)
local waits = fields and call('EXISTS', KEYS[3]) == 1
-- Whether clients listen, and no claim waits. A state that says no more than that, and perhaps the inbox of its holder,
-- is as good as a plain one. It keeps its flag, and the lock has its mark from the grant on.
local listens = fields and not waits and (fields == ' l' or #fields == 20 and string.find(fields, '^ i%x+ l$'))
if listens then
  before = string.sub(before, 2, 34)
  is_plain = before > '15778368' and string.byte(before, 17) < 52
end

local time = call('TIME')
local is_set = #time[1] == 10 and time[1] > '1577836799'
local is_near = is_set and ARGV[4] > time[1] - 1 .. '' and ARGV[4] < time[1] + 2 .. ''
local is_above = is_near and is_plain and (not before or before < ARGV[4])
local flag = listens and 'w' or ''
if is_above and call('SET', KEYS[1], ARGV[1] .. flag, 'NX', 'PX', ARGV[2]) then
  call('SET', KEYS[2], flag .. ARGV[4] .. ARGV[5] .. (listens and ' l' or ''), 'PX', ARGV[3])
  local state = ARGV[4] .. string.sub(ARGV[5], 1, 17)
  return before and state .. ' ' .. before or state
end

if is_later() then
  return '?'
end
local value = call('GETRANGE', KEYS[1], 0, 33)
local owner = string.sub(value, 1, 32)
if waits or value == '' or string.byte(value) == 42 or owner == ARGV[1] then
  return '?'
end
local is_whole = #value == 32 or value == owner .. 'w'
return refused(call('PTTL', KEYS[1]), is_whole and owner)
