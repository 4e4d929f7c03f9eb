local declared, limit, closed = known_permits()
local verb, count = ARGV[2], tonumber(ARGV[3])
if declared and verb ~= 'declare' and not was_declared(declared, ARGV[1]) then
  return redis.error_reply(other_number(declared, ARGV[1]))
elseif value and not is_shared_in('p0/' .. ARGV[1]) then
  return redis.error_reply('LOCKKIND the key is held as another kind of lock')
end
declared = declared or ARGV[1]
limit = limit or tonumber(ARGV[1])

local before, looks = limit, verb == 'look'
if verb == 'add' then
  if limit + count > 4294967295 then
    return redis.error_reply(string.format('LOCKTAKE there cannot be more than 4294967295 permits, and there are %.0f', limit))
  end
  limit = limit + count
elseif verb == 'declare' and string.match(declared, '%d+') == ARGV[1] then
  looks = true
elseif verb == 'declare' then
  declared, limit = declared_anew(declared, ARGV[1]), tonumber(ARGV[1])
end

-- Permits of expired leases go to the queue before they may be removed.
for _ = 1, BOUND do
  if not prune() then
    break
  end
end
-- A user that may not read this changes nothing.
call('LLEN', KEYS[3])
call('LRANGE', KEYS[3], 0, 0)
taken_permits()

if looks and closed ~= nil then
  use_permits(0)
else
  local former = value
  if value and limit ~= before and verb == 'declare' then
    -- Without the record, the marker says how many permits there are.
    value = marker('p0/' .. ARGV[1])
    call('SETRANGE', KEYS[1], 0, value)
  end
  closed = closed or verb == 'close'
  local ok, problem = pcall(remember_permits, declared, limit, closed, 0)
  if not ok then
    if former ~= value then
      call('SETRANGE', KEYS[1], 0, former)
    end
    error(problem, 0)
  end
end

pcall(serve)
if verb == 'remove' and call('EXISTS', KEYS[3]) == 0 then
  limit = limit - math.max(math.min(count, limit - taken_permits()), 0)
  remember_permits(declared, limit, closed, 0)
end

-- A claim too far back in the queue to be told finds out when its client asks for the place again.
local function send_away()
  for _, place in ipairs(in_line()) do
    if permits(mode_of(place.name)) then
      leave(place.name)
      tell_next(place.name, place.inbox, 0)
    end
  end
end

if verb == 'close' then
  pcall(send_away)
  pcall(serve)
end
if verb == 'close' or verb == 'add' or limit > before then
  redis.pcall('PUBLISH', ARGV[4], 'released')
end
pcall(settle)
local _, waiting = in_line()
return string.format('%.0f %.0f %.0f %.0f %d', math.abs(limit - before), limit, taken_permits(), waiting, closed and 1 or 0)
