  -- The next state.
  local time = redis.pcall('TIME')
  local micros = time[2] or ''
  if #micros < 6 then
    micros = string.sub('00000' .. micros, -6)
  end
  local state = (time[1] or '') .. micros .. ARGV[4]
