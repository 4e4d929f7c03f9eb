-- The token numbers of a vote, which the clients of a quorum bring into step. A claim from the queue that is
-- granted the lock by the way gets numbers of this server.
local by_clock = reserve

-- If the count is "count floor", reserves this many numbers, or fewer, that end with the floor. If the floor was
-- given out before, the next number. The last number is at most an hour ahead of the clock.
--
-- A state is forgotten when the clock is ahead of its tokens by its retention. So the numbers that were given out
-- by then are not above that. After such a loss, as after any other, there is one number and no range.
local function reserve(count, lease, owner, inbox, is_held)
  local HOUR = 14400000000
  local most, floor = string.match(count, '^(%d+) (%d+)$')
  if not floor then
    return by_clock(count, lease, owner, inbox, is_held)
  end
  if state.problem then
    return nil, state.problem
  elseif tonumber(time[1]) < EPOCH then
    return by_clock(most, lease, owner, inbox, is_held)
  end
  local clock = (time[1] - EPOCH) * 4000000 + time[2] * 4
  local latest = state.latest
  if not latest then
    latest, most = clock - retention * 4000, 1
  end
  if latest >= 9007199254740991 then
    return nil, 'LOCKFENCE the token numbers have run out'
  end
  local last = math.max(latest + 1, math.min(tonumber(floor), clock + HOUR))
  local first = math.max(latest + 1, last - math.min(most, 40000) + 1)
  state.granted = is_held and is_ours() and (state.granted or state.latest) or nil
  state.latest, state.owner = last, string.sub(owner, 1, 16)
  state.inbox = inbox ~= '' and inbox or nil
  -- Much longer than the lease, and until the clock has caught up.
  write_state(lease + retention + math.max(0, math.ceil((last - clock) / 4000)))
  return string.format('%.0f %.0f', first, last)
end

