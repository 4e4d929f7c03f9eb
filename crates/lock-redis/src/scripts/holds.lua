-- Whether this owner holds the lock alone. The lock may have its mark.
local function holds(owner)
  local value = call('GETRANGE', KEYS[1], 0, 33)
  return value == owner or value == owner .. 'w'
end

