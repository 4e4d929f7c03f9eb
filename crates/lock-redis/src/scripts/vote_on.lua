-- What concerns places in the queue, of which a vote has none, and those who hold the lock as a group. Not unless
-- there is a place: after a write, the next is not refused for want of memory.
if call('HGET', KEYS[4], name) then
  leave(name)
end
if string.byte(mode) == 106 and value and fits(mode) then
  local range, problem = grant(name, lease, ARGV[3], inbox)
  return range and granted(range, lease) or failed(problem)
end
