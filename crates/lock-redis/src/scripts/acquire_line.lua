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

