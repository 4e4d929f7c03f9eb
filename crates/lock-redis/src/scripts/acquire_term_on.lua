-- As acquire_quick_on.lua, where a grant names its term.
--
-- ARGV[5]  the term, as the client knows it, or empty; the number of the request comes after it
--
-- The client knows the term in which this server was the primary a moment ago. That is good enough for the name in a
-- grant (link/terms.rs), and spares the server an INFO. If the lock was held and not seen released, the script asks for
-- the present term: under another one, the full script decides.
local term = table.remove(ARGV, 5)
local is_left = is_plain and before and string.sub(before, 34, 35) == ' t'
local value = is_left and redis.pcall('GETRANGE', KEYS[1], '0', '33')

local function is_over()
  if is_left or term == '' then
    term = present_term() or ''
  end
  return is_plain and term ~= '' and (not is_left or string.sub(before, 36, 51) == term)
end

if (not value or value == '') and is_over() and call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local time = redis.pcall('TIME')
  local seconds, micros = time[1], time[2] or ''
  if #micros < 6 then
    micros = string.sub('00000' .. micros, -6)
  end
  local state = (seconds or '') .. micros .. ARGV[4]
  if #state == 33 and state > (before or '15778368') then
    call('SET', KEYS[2], state .. ' t' .. term .. '.' .. ARGV[2], 'PX', ARGV[3])
    return before and ARGV[5] .. ' ' .. state .. ' ' .. before or ARGV[5] .. ' ' .. state
  end
  -- The clock was set back, or was never set, or this user may not read it.
  call('DEL', KEYS[1])
  return ARGV[5] .. ' ?'
end

if is_later() then
  return ARGV[5] .. ' ?'
end
value = value or redis.pcall('GETRANGE', KEYS[1], '0', '33')
if value.err or value == '' or string.byte(value) == 42 or string.sub(value, 1, 32) == ARGV[1] and #value > 32 then
  return ARGV[5] .. ' ?'
end
local left = call('PTTL', KEYS[1])
if value ~= ARGV[1] then
  return ARGV[5] .. string.format(' b %.0f', left)
end
local lease = is_left and is_over() and string.sub(before, 17, 33) == ARGV[4] and string.match(before, '^ t%x+%.(%d+)', 34)
if not lease or tonumber(lease) < tonumber(ARGV[2]) then
  return ARGV[5] .. ' ?'
end
if left < tonumber(ARGV[2]) then
  left = ARGV[2]
  call('PEXPIRE', KEYS[1], left)
  call('PEXPIRE', KEYS[2], ARGV[3])
end
return ARGV[5] .. string.format(' r %.0f ', left) .. before
