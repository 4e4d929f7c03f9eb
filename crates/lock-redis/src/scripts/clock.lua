
-- The server's clock in microseconds, and the reply that it comes from.
local function clock()
  local time = call('TIME')
  return time[1] .. string.sub('00000' .. time[2], -6), time
end

