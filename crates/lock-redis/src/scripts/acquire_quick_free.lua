  -- Otherwise the clock was never set, or this user may not read it.
  if #state == 33 and state > '15778368' then
    local text = state
    text = state .. ' t' .. term .. '.' .. ARGV[2] --terms
    local before = redis.pcall('SET', KEYS[2], text, 'PX', ARGV[3], 'GET')
    if not before then
      return ARGV[5] .. ' ' .. state
    elseif #before > 32 and before < state and before > '15778368' and string.byte(before, 17) < 52
      and is_over(before) --terms
    then
      return ARGV[5] .. ' ' .. state .. ' ' .. before
    elseif not before.err then
      -- The clock was set back, or the state has its flag; or this is no state of this version, and its time to live is
      -- not ours to choose. Or a lease of another term may go on.
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
