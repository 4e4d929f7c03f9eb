-- A vote has no place in the queue, and gives up one that its claim may have. Only an existing place is removed:
-- after a write, the next write would not be refused for want of memory. Then the part for members of the group
-- that holds the lock.
if call('HGET', KEYS[4], name) then
  leave(name)
end
if string.byte(mode) == 106 and value and fits(mode) then
  local range, problem = grant(name, lease, ARGV[3], inbox)
  return range and granted(range, lease) or failed(problem)
end
