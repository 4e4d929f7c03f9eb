
-- Held by one alone, and the first who waits wants it alone too: this is all that happens where
-- processes contend. Whatever is out of the ordinary is left to what follows, as if nothing had been
-- done: a lock that is given to somebody who is gone is still the releasing owner's to give.
local queued
local function pass_on()
  local name = call('LINDEX', KEYS[3], 0)
  local place = name and string.sub(name, 1, 2) == 'x:' and call('HGET', KEYS[4], name)
  local ends, claim, count, inbox = string.match(place or '', '^(%d+) %- (%d+) (%d+) (.+)$')
  local micros, time = clock()
  local rest = ends and ends - micros / 1000
  if rest and rest > 0 then
    -- What takes away is not refused for want of memory, and then nor is what follows.
    call('LPOP', KEYS[3])
    call('HDEL', KEYS[4], name)
    local _, stay, lease = string.match(ARGV[5] or '', '^(%d+) (%d+) (%d+)$')
    local again = stay and 'x:' .. ARGV[4]
    if again and again ~= name then
      -- To the end of the queue, which cannot be longer than before.
      local slot = place_until(micros, stay, '-', lease, ARGV[6], ARGV[7])
      if call('HSET', KEYS[4], again, slot) == 1 then
        call('RPUSH', KEYS[3], again)
      end
      keep_queue(stay)
      queued = 'q ' .. claim .. ' ' .. micros
    end
    local owner, heard = string.sub(name, 3), nil
    local range = reserve(count, claim, inbox, false, time)
    if range then
      call('SETRANGE', KEYS[1], 0, owner)
      call('PEXPIRE', KEYS[1], claim)
      local words = { 'granted', owner, range, claim, micros, queued and 1 or call('EXISTS', KEYS[3]), KEYS[1] }
      heard = tonumber(redis.pcall('PUBLISH', inbox, table.concat(words, ' ')))
    end
    if not heard then
      call('LPUSH', KEYS[3], name)
      call('HSET', KEYS[4], name, place)
      -- Both keys may have gone with the last name.
      rest = math.max(call('PTTL', KEYS[3]), math.ceil(2 * rest))
      call('PEXPIRE', KEYS[3], rest)
      call('PEXPIRE', KEYS[4], rest)
    end
    return heard and heard > 0
  end
end

if value == ARGV[1] and (ARGV[3] or 'x') == 'x' then
  local ok, passed = pcall(pass_on)
  if ok and passed then
    return queued or 0
  end
end
