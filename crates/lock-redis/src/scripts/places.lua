-- The places in the queue.
--
-- A place is "ends asks from claim tokens inbox joined": until when it is kept, and when its client asks again
-- without a message, in ms; the name of the lease that is to be converted, or `-`; how long, in ms, a lease lives
-- that is handed over; how many tokens it reserves; the inbox on which the client hears of the grant; and when the
-- claim joined the queue, in ms.

local function read_place(place)
  return string.match(place or '', '^(%d+) (%d+) (%S+) (%d+) (%d+) (%x+) ?(%d*)')
end

-- A place of this many ms, whose client asks again when the present lease ends in `left` ms, or earlier.
local function place_until(stay, left, from, claim, count, inbox, joined)
  local asks = math.floor(stay / 3)
  if left >= 0 and left < asks then
    asks = left
  end
  return string.format('%.0f %.0f %s %s %s %s %.0f', now + stay, now + asks, from, claim, count, inbox, joined)
end

-- Whether the client of an inbox subscribed in the present term of this server: while its data have had the present
-- history. The inbox ends in the beginning of that history, or in zeros if the client does not know the term. Of a
-- server that does not tell this user, every client is one of the present term.
local function is_of_this_term(inbox)
  local term = string.sub(inbox or '', -6)
  if term == '000000' then
    return true
  end
  local told = redis.pcall('INFO', 'replication')
  local history = type(told) == 'string' and string.match(told, 'master_replid:(%x+)')
  return not history or string.sub(history, 1, 6) == term
end

-- Tells a client of the grant to its claim, and whether other claims wait. Returns as `publish` does.
local function tell_of_grant(name, inbox, range, lease, wanted)
  local owner = string.match(name, '[^:]+$')
  local words = { 'granted', owner, range, lease, micros, wanted and 1 or 0, KEYS[1] }
  return publish(inbox, table.concat(words, ' '))
end

-- Tells the client of the first claim in the queue in how many ms its turn could come.
local function tell_next(name, inbox, after)
  local owner = string.match(name, '[^:]+$')
  return publish(inbox, table.concat({ 'next', owner, string.format('%.0f', after), KEYS[1] }, ' '))
end

-- Makes the client of the first claim in the queue ask in this many ms, unless by its place it asks earlier
-- anyway.
local function remind(name, place, after)
  local _, asks, _, _, _, inbox = read_place(place)
  if after == 0 or asks and asks - now > tonumber(after) then
    tell_next(name, inbox, after)
  end
end

-- In how many ms a waiting claim asks again beside a lease with this many ms left. A foreign client tells no
-- client of its release, so the first claim in the queue has to look for it.
local function asks_in(name, left)
  if is_foreign() and (left < 0 or left > 60) and call('LINDEX', KEYS[3], 0) == name then
    return 60
  end
  return left
end

