-- Most locks are free when a client asks for them, and then this is all. The lock is written first: without
-- memory, or without a right, this write fails.
if is_plain and call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local time = redis.pcall('TIME')
  local seconds, micros = time[1], time[2] or ''
  if #micros < 6 then
    micros = string.sub('00000' .. micros, -6)
  end
  local state = (seconds or '') .. micros .. ARGV[4]
  if #state == 33 and state > (before or '15778368') then
    call('SET', KEYS[2], state, 'PX', ARGV[3])
    return before and ARGV[5] .. ' ' .. state .. ' ' .. before or ARGV[5] .. ' ' .. state
  end
  -- The clock was set back, or was never set, or this user may not read it.
  call('DEL', KEYS[1])
  return ARGV[5] .. ' ?'
end

if is_later() then
  return ARGV[5] .. ' ?'
end
local value = redis.pcall('GETRANGE', KEYS[1], '0', '33')
if value.err or value == '' or string.byte(value) == 42 or string.sub(value, 1, 32) == ARGV[1] and #value > 32 then
  return ARGV[5] .. ' ?'
end
local left = call('PTTL', KEYS[1])
if value ~= ARGV[1] then
  return ARGV[5] .. string.format(' b %.0f', left)
elseif not is_plain or string.sub(before or '', 17, 33) ~= ARGV[4] then
  return ARGV[5] .. ' ?'
end
if left < tonumber(ARGV[2]) then
  left = ARGV[2]
  call('PEXPIRE', KEYS[1], left)
  call('PEXPIRE', KEYS[2], ARGV[3])
end
return ARGV[5] .. string.format(' r %.0f ', left) .. before
