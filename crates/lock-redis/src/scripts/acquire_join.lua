-- Nobody is granted anything: the request gets a place in the queue, or none.
local most, place, claim = string.match(ARGV[6] or '', '^(%d+) (%d+) (%d+)$')
-- Who waits uses the limit as well. Not before the write that is refused for want of memory.
local function refused(reply)
  if KEYS[7] then
    use_permits(lease)
  end
  return reply
end

if not most or inbox == '' then
  return refused(left)
end
-- When the first of several leases ends, there may be less to wait for than there was.
local first = is_shared() and call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2]
if first and (left < 0 or first - now < left) then
  left = math.max(1, first - now)
end
local is_first
is_first, problem = join(name, source, tonumber(most), tonumber(place), claim, ARGV[3], inbox)
if problem then
  return redis.error_reply(problem)
end
if is_first then
  call_for_it()
end
return refused(table.concat({ 'q', left, micros }, ' '))
