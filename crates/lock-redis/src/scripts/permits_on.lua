local declared, limit, closed = known_permits()
if declared and declared ~= ARGV[1] then
  return redis.error_reply('LOCKPERMITS ' .. ARGV[1] .. ' permits were declared, but there is a semaphore of ' .. declared)
elseif value and value ~= marker('p0/' .. ARGV[1]) then
  return redis.error_reply('LOCKKIND the key is held as another kind of lock')
end
limit = limit or tonumber(ARGV[1])

local verb, count, changed = ARGV[2], tonumber(ARGV[3]), 0
if verb == 'add' then
  if limit + count > 4294967295 then
    return redis.error_reply(string.format('LOCKTAKE there cannot be more than 4294967295 permits, and there are %.0f', limit))
  end
  changed = count
end
limit = limit + changed
if verb == 'look' and closed ~= nil then
  use_permits(0)
else
  closed = closed or verb == 'close'
  remember_permits(ARGV[1], limit, closed, 0)
end

-- Permits of expired leases go to the queue before they may be removed.
for _ = 1, BOUND do
  if not prune() then
    break
  end
end
pcall(serve)
if verb == 'remove' and call('EXISTS', KEYS[3]) == 0 then
  changed = math.max(math.min(count, limit - taken_permits()), 0)
  limit = limit - changed
  remember_permits(ARGV[1], limit, closed, 0)
end
if verb == 'close' then
  -- A claim too far back in the queue to be told finds out when its client asks for the place
  -- again.
  for _, place in ipairs(in_line()) do
    if permits(mode_of(place.name)) then
      leave(place.name)
      tell_next(place.name, place.inbox, 0)
    end
  end
  pcall(serve)
end
if verb == 'close' or verb == 'add' then
  redis.pcall('PUBLISH', ARGV[4], 'released')
end
settle()
local _, waiting = in_line()
return string.format('%.0f %.0f %.0f %.0f %d', changed, limit, taken_permits(), waiting, closed and 1 or 0)
