-- Most locks are free when they are asked for. This is all that happens then.
--
-- The fence comes first: where there is no memory, or no right, this is the write that fails, and
-- nobody holds a lock that was half granted.
if not value and (ARGV[5] or 'x') == 'x' and not ARGV[7] and call('EXISTS', KEYS[3]) == 0 then
  local range, problem = reserve(ARGV[3], ARGV[2], ARGV[4])
  if not range then
    return redis.error_reply(problem)
  end
  call('SETRANGE', KEYS[1], 0, ARGV[1])
  local expires = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if expires ~= 1 then
    -- A user who may not say when a lock ends shall not have one that never does.
    call('DEL', KEYS[1])
    return expires
  end
  return range
end

