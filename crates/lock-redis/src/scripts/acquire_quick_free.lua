-- Most locks are free when a client asks for them, and then this is all. The lock is written first: without
-- memory, or without a right, this write fails. The state is written and read in one call, which costs less than two.
if call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local time = redis.pcall('TIME')
  local micros = time[2] or ''
  if #micros < 6 then
    micros = string.sub('00000' .. micros, -6)
  end
  local state = (time[1] or '') .. micros .. ARGV[4]
  -- Otherwise the clock was never set, or this user may not read it.
  if #state == 33 and state > '15778368' then
    local before = redis.pcall('SET', KEYS[2], state, 'PX', ARGV[3], 'GET')
    if not before then
      return ARGV[5] .. ' ' .. state
    elseif #before > 32 and before < state and before > '15778368' and string.byte(before, 17) < 52 then
      return ARGV[5] .. ' ' .. state .. ' ' .. before
    elseif not before.err then
      -- The clock was set back, or the state has its flag; or this is no state of this version, and its time to live is
      -- not ours to choose.
      if string.find(before, '^w?%d+%-%x+') then
        call('SET', KEYS[2], before, 'PX', ARGV[3])
      else
        call('SET', KEYS[2], before)
      end
    end
  end
  call('DEL', KEYS[1])
  return ARGV[5] .. ' ?'
end
