-- Whether the place of the first claim in the queue was kept.
local function has_living_head()
  local ends = read_place(call('HGET', KEYS[4], call('LINDEX', KEYS[3], 0) or ''))
  return ends and tonumber(ends) > now
end

return for_each(4, 5, function(owner, stay, claim, count, inbox)
  read_lock()
  read_state()
  if not value or value == owner or string.byte(value) == 42 or state.problem or not is_settled(true) then
    return '?'
  end
  if left_of_other_terms() and state.is_changed then return '?' end --terms
  local name, rest = 'x:' .. owner, call('PTTL', KEYS[3])
  local ends, _, from, _, _, _, joined = read_place(call('HGET', KEYS[4], name))
  if not ends or from ~= '-' or rest == -2 or is_foreign() and not has_living_head() then
    return '?'
  end
  local left = call('PTTL', KEYS[1])
  stay = tonumber(stay)
  rest = math.max(rest, 2 * stay)
  -- This write is not refused for want of memory, and neither are the writes after it.
  call('PEXPIRE', KEYS[3], rest)
  call('HSET', KEYS[4], name, place_until(stay, left, from, claim, count, inbox, tonumber(joined) or now))
  call('PEXPIRE', KEYS[4], rest)
  return string.format('q %.0f %s', asks_in(name, left), micros)
end)
