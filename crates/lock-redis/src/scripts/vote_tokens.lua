-- The numbers of a vote, which the clients of a quorum bring into step. Whoever else is granted the lock
-- meanwhile gets those of this server.
local by_clock = reserve

-- Where the count is "count floor", reserves so many numbers, or fewer, of which the last is the floor; or
-- the next number if the floor was given out before. It may be an hour ahead of the clock, no more.
--
-- A fence is forgotten an hour after the clock has passed it, so that what it had given out by then is
-- known: nothing above that hour. After that loss, as after any, there is one number and no range.
local function reserve(count, lease, inbox, is_held, time)
  local most, floor = string.match(count, '^(%d+) (%d+)$')
  if not floor then
    return by_clock(count, lease, inbox, is_held, time)
  end
  time = time or call('TIME')
  local now = (time[1] - 1577836800) * 4000000 + time[2] * 4
  local latest = now - 14400000000
  local fence = call('GET', KEYS[2])
  if fence then
    local known, more = string.match(fence, '^%d+ (%d+)%+?(%d*)')
    if not known then
      return nil, 'LOCKFENCE the fence key holds something else'
    end
    latest = tonumber(more ~= '' and more or known)
  else
    most = 1
  end

  if latest >= 9007199254740991 then
    return nil, 'LOCKFENCE the token numbers have run out'
  end
  local last = math.max(latest + 1, math.min(tonumber(floor), now + 14400000000))
  local first = math.max(latest + 1, last - math.min(most, 40000) + 1)
  local range = string.format('%.0f %.0f', first, last)
  -- Well beyond the lease, and until the clock has caught up.
  local keep = lease + 3600000 + math.max(0, math.ceil((last - now) / 4000))
  call('SET', KEYS[2], inbox == '' and range or range .. ' ' .. inbox, 'PX', keep)
  return range
end

