-- No claim is granted. The owner in the way is the holder; of several holders the one whose lease ends last; or
-- otherwise the first in the queue.
local holder = not is_shared() and value
if is_shared() then
  local last = call('ZREVRANGE', KEYS[5], 0, 0)[1]
  holder = last and select(2, mode_of(last))
elseif not value then
  local first = call('LINDEX', KEYS[3], 0)
  holder = first and select(2, mode_of(first))
end
return refused(left, holder)
