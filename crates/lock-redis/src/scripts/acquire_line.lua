-- Who waits goes first, also before one for whom there would be room.
local problem
if not from then
  if call('EXISTS', KEYS[3]) == 1 then
    local ask = { name = name, lease = lease, count = ARGV[3], inbox = inbox }
    local crowded
    crowded, problem = serve(ask)
    more = more or crowded
    if ask.range then
      return granted(ask.range, ask.left)
    elseif problem then
      return failed(problem)
    end
  end
  if call('EXISTS', KEYS[3]) == 0 and fits(mode) then
    local range
    range, problem = grant(name, lease, ARGV[3], inbox)
    return range and granted(range, lease) or failed(problem)
  end
end
settle()

-- When there may be room, if nobody renews or releases. Where nobody holds the lock, the first in the
-- queue has to ask.
local left = more and 1 or room_in() or not value and 1000 or call('PTTL', KEYS[1])

local most, place, claim = string.match(ARGV[6] or '', '^(%d+) (%d+) (%d+)$')
-- Who waits uses the limit as well. Not before the write that is refused for want of memory.
local function refused(reply)
  if KEYS[7] then
    use_permits(lease)
  end
  return reply
end

if not most or inbox == '' then
  return refused(left)
end
-- When the first of several leases ends, there may be less to wait for than there was.
local first = is_shared() and call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2]
if first and (left < 0 or first - now < left) then
  left = math.max(1, first - now)
end
local is_first
is_first, problem = join(name, source, tonumber(most), tonumber(place), claim, ARGV[3], inbox)
if problem then
  return redis.error_reply(problem)
end
if is_first then
  call_for_it()
end
return refused(table.concat({ 'q', left, micros }, ' '))
