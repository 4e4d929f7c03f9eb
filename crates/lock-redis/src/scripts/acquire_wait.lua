
-- Held by one alone, which is what a lock is that many want: nobody can be served now. Who asks for it
-- alone and may wait goes to the end of the queue, or keeps the place it has there.
if value and value ~= ARGV[1] and string.byte(value) ~= 42 and (ARGV[5] or 'x') == 'x' and not ARGV[7] then
  local left = call('PTTL', KEYS[1])
  local limit, place, claim = string.match(ARGV[6] or '', '^(%d+) (%d+) (%d+)$')
  if not limit or ARGV[4] == '' then
    return left
  end
  local length = call('LLEN', KEYS[3])
  if length < tonumber(limit) then
    local micros = clock()
    local name = 'x:' .. ARGV[1]
    local slot = place_until(micros, place, '-', claim, ARGV[3], ARGV[4])
    if length == 0 then
      call('RPUSH', KEYS[3], name)
      -- What is left there belongs to a list that has gone.
      call('DEL', KEYS[4])
      call('HSET', KEYS[4], name, slot)
      local inbox = string.match(call('GET', KEYS[2]) or '', '^%d+ %d+%+?%d* (.+)$')
      if inbox then
        redis.pcall('PUBLISH', inbox, 'wanted ' .. KEYS[1])
      end
    else
      local added = redis.pcall('HSET', KEYS[4], name, slot)
      if added == 1 then
        call('RPUSH', KEYS[3], name)
      elseif added ~= 0 then
        if call('HEXISTS', KEYS[4], name) == 0 then
          return added
        end
        -- A place is kept also for want of memory, which is not asked about after the first write.
        call('PEXPIRE', KEYS[4], 2 * place)
        call('HSET', KEYS[4], name, slot)
      end
    end
    keep_queue(place)
    return 'q ' .. left .. ' ' .. micros
  end
end
