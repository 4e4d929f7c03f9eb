-- Reserves so many consecutive token numbers, or fewer, for a lease of so many ms, whose holder hears
-- on that channel if it is not empty. Returns "first last", or else nothing and why. If the lease is
-- held already, it has tokens, and these are further ones. Who has asked for the time may give it.
--
-- Numbers are the server's clock, in quarters of a microsecond since 2020, so that they grow although
-- the fence was forgotten, and doubles hold them exactly until 2091. For that, none may lead the clock:
-- the grant after would begin below it. A range ends now, and reaches back over the time that has gone
-- by since the latest grant. Only where none has, as after the clock was set back, a single number is
-- taken ahead of it; or none, if the lease has some.
local function reserve(count, lease, inbox, is_held, time)
  local fence = call('GET', KEYS[2])
  local latest
  if fence then
    local more
    latest, more = string.match(fence, '^%d+ (%d+)%+?(%d*)')
    if not latest then
      return nil, 'LOCKFENCE the fence key holds something else'
    elseif more ~= '' then
      latest = more
    end
  end

  time = time or call('TIME')
  local last = (time[1] - 1577836800) * 4000000 + time[2] * 4
  -- Well beyond the lease.
  local first, keep = last, lease + 3600000
  if latest then
    local before = math.max(latest, last - math.min(count, 40000))
    local ahead = before + 1 - last
    first = before + 1
    if ahead > 0 then
      if is_held then
        return nil, 'the clock has to catch up'
      end
      if before >= 9007199254740991 then
        return nil, 'LOCKFENCE the token numbers have run out'
      end
      last = first
      -- The clock has to catch up before the fence may be forgotten.
      keep = keep + math.ceil(ahead / 4000)
    end
  end

  local range = string.format('%.0f %.0f', first, last)
  local record = range
  if is_held and fence then
    record = string.format('%s+%.0f', string.match(fence, '^%d+ %d+'), last)
  end
  if inbox ~= '' then
    record = record .. ' ' .. inbox
  end
  call('SET', KEYS[2], record, 'PX', keep)
  return range
end

