
-- How a place in the queue is written, and how long the queue lasts.

-- A place of so many ms from now, for a lease that is to be converted or `-`.
local function place_until(micros, stay, from, claim, count, inbox)
  local ends = math.floor(micros / 1000) + stay
  return string.format('%.0f %s %s %s %s', ends, from, claim, count, inbox)
end

-- Makes the queue last for as long as a new place of so many ms.
local function keep_queue(stay)
  if call('PTTL', KEYS[3]) < tonumber(stay) then
    call('PEXPIRE', KEYS[3], 2 * stay)
    call('PEXPIRE', KEYS[4], 2 * stay)
  end
end
