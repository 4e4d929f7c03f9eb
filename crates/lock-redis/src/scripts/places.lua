-- The places in the queue.
--
-- A place is "ends asks from claim tokens inbox": until when it is kept, and when its client asks again by
-- itself, in ms; the name of the lease that is to be converted, or `-`; how long, in ms, a lease lives that is
-- handed over; how many tokens it reserves; and the inbox on which the client hears of it.

local function read_place(place)
  return string.match(place or '', '^(%d+) (%d+) (%S+) (%d+) (%d+) (%x+)$')
end

-- A place of so many ms, whose client asks again when the present lease ends in so many ms, or earlier.
local function place_until(stay, left, from, claim, count, inbox)
  local asks = math.floor(stay / 3)
  if left >= 0 and left < asks then
    asks = left
  end
  return string.format('%.0f %.0f %s %s %s %s', now + stay, now + asks, from, claim, count, inbox)
end

-- Says something on an inbox. Returns how many clients heard it, or nothing if that is not allowed.
local function publish(inbox, text)
  local channel = string.match(KEYS[2], '^[^{]*') .. 'inbox:' .. (inbox or '')
  return tonumber(redis.pcall('PUBLISH', channel, text))
end

-- Tells a client of the grant to its claim, and whether other claims wait. Returns as `publish` does.
local function tell_of_grant(name, inbox, range, lease, wanted)
  local owner = string.match(name, '[^:]+$')
  local words = { 'granted', owner, range, lease, micros, wanted and 1 or 0, KEYS[1] }
  return publish(inbox, table.concat(words, ' '))
end

-- Tells the client of the first claim in the queue that its turn could come in so many ms.
local function tell_next(name, inbox, after)
  local owner = string.match(name, '[^:]+$')
  return publish(inbox, table.concat({ 'next', owner, string.format('%.0f', after), KEYS[1] }, ' '))
end

-- Has the client of the first claim in the queue ask in so many ms, if by its place it does not ask by itself.
local function remind(name, place, after)
  local _, asks, _, _, _, inbox = read_place(place)
  if after == 0 or asks and asks - now > tonumber(after) then
    tell_next(name, inbox, after)
  end
end

-- In how many ms a claim in the queue asks again beside a lease that has so many left. A client of another kind
-- tells no client of its release, so the first in the queue has to look for it.
local function asks_in(name, left)
  if is_foreign() and (left < 0 or left > 60) and call('LINDEX', KEYS[3], 0) == name then
    return 60
  end
  return left
end

