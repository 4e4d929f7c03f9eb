-- The part for an owner that holds the lock alone, or wants to.

-- The last token of an owner that holds the lock alone; its client hears on this inbox from now on.
local function own_tokens()
  local token = own_token()
  if not token then
    return reserve(ARGV[3], lease, owner, inbox)
  end
  if inbox ~= '' then
    state.inbox = inbox
  end
  note_lease(lease) --terms
  write_state(keep_beside(lease))
  return string.format('%.0f %.0f', token, token)
end

-- How much is left of the owner's lease, which is extended if that is less than the request asks
-- for.
local function own_lease()
  local left = call('PTTL', KEYS[1])
  if left < lease then
    call('PEXPIRE', KEYS[1], lease)
  end
  return math.max(left, lease)
end

-- Held already, or converted to a weaker mode: granted at once, with the tokens that the lease has.
if value == owner and (mode == 'x' or from == 'x') then
  local left = own_lease()
  local range, problem = own_tokens()
  if not range then
    return failed(problem)
  end
  if from == 'x' then
    vacate()
    share(name, left, inbox == '' and range or range .. ' ' .. inbox)
    pcall(serve)
  end
  return granted(range, left)
elseif from == 'x' then
  return failed('LOCKOVER the lease to convert is over')
end

-- Converted to a stronger mode: granted as soon as no other owner shares the lock, before all
-- waiting claims.
if from then
  ends = shared_until(source)
  if not ends then
    -- The place of the claim, if it had one, is dropped as one that was not kept.
    serve()
    return failed('LOCKOVER the lease to convert is over')
  end
  if is_alone(source) then
    leave(name)
    local left = math.max(ends - now, lease)
    local range, problem = reserve(ARGV[3], left, owner, inbox)
    if not range then
      return failed(problem)
    end
    put_alone(owner, left)
    return granted(range, left)
  elseif ARGV[6] == '' and select(2, place_of(name)) == source then
    leave(name)
    serve()
  end
end

-- For a conversion: the time in ms until no other owner shares the lock.
local function room_in()
  if from then
    local left = 1
    local last = call('ZREVRANGE', KEYS[5], 0, 1, 'WITHSCORES')
    for index = 1, #last, 2 do
      if last[index] ~= source then
        left = math.max(left, last[index + 1] - now)
      end
    end
    return left
  end
end

