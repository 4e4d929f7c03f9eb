-- The request gets a place in the queue, or none. It also extends the life of the limit of the permits, but
-- only after the write that is refused for want of memory.
local function refused(reply)
  settle()
  if KEYS[7] then
    use_permits(lease)
  end
  return reply
end

local most, stay, claim = string.match(ARGV[6] or '', '^(%d+) (%d+) (%d+)$')
if not most or inbox == '' then
  return refused(left)
end
-- When the first of several leases ends, there may be room earlier than expected.
local first = is_shared() and call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2]
if first and (left < 0 or first - now < left) then
  left = math.max(1, first - now)
end
local is_only
is_only, problem = join(name, source, left, tonumber(most), tonumber(stay), claim, ARGV[3], inbox)
if problem then
  return failed(problem)
end

-- The reply to a request that has a place.
local function queued()
  if is_only then
    call_for_it()
  end
  return refused(string.format('q %.0f %s', asks_in(name, left), micros))
end
local ok, reply = pcall(queued)
if not ok then
  -- After an error, the request has no place.
  pcall(leave, name)
  error(reply, 0)
end
return reply
