-- Nobody is granted anything. Who has the lock is its holder; of several the one whose lease ends last,
-- apart from one that is to be converted; or else the first who waits.
local holder = not is_shared() and value
if is_shared() then
  for _, sharer in ipairs(call('ZREVRANGE', KEYS[5], 0, 1)) do
    holder = holder or sharer ~= source and select(2, mode_of(sharer))
  end
elseif not value then
  local first = call('LINDEX', KEYS[3], 0)
  holder = first and select(2, mode_of(first))
end
return refused(left, holder)
