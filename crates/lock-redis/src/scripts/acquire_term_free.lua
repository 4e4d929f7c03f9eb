  if #state == 33 and state > (before or '15778368') then
    call('SET', KEYS[2], state .. ' t' .. term .. '.' .. ARGV[2], 'PX', ARGV[3])
    return before and ARGV[5] .. ' ' .. state .. ' ' .. before or ARGV[5] .. ' ' .. state
  end
  -- The clock was set back, or was never set, or this user may not read it.
  call('DEL', KEYS[1])
  return ARGV[5] .. ' ?'
end

value = value or redis.pcall('GETRANGE', KEYS[1], '0', '33')
