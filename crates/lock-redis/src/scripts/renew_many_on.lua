return for_each(3, 3, function(owner, lease, inbox)
  lease = tonumber(lease)
  read_lock()
  if value ~= owner then
    return 0
  elseif call('PTTL', KEYS[1]) > lease then
    return '?'
  end
  -- The state is prolonged once in a while, and never ends before the lease.
  local lasts = call('PTTL', KEYS[2]) >= lease + retention * 2 / 3
  local demand = 'u'
  --<terms
  read_state()
  if not state.term or state.is_released or state.lease < lease then
    return '?'
  end
  --terms>
  if marked or inbox ~= '' or not lasts then
    read_state()
    if state.problem or not is_ours() or inbox ~= '' and state.inbox ~= inbox then
      return '?'
    end
    local waits = call('EXISTS', KEYS[3]) == 1
    if not is_settled(waits or state.listens or false) then
      return '?'
    end
    demand = waits and 'w' or inbox ~= '' and 'q' or 'u'
  end
  call('PEXPIRE', KEYS[1], lease)
  if not lasts then
    call('PEXPIRE', KEYS[2], lease + retention)
  end
  return demand
end)
