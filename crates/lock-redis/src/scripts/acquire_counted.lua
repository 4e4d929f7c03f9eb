-- The part for owners that hold the lock as a group, or want permits.

local take, of = permits(mode)
local limit
if take then
  local declared, closed
  declared, limit, closed = known_permits()
  local problem
  if declared and not was_declared(declared, of) then
    problem = other_number(declared, of)
  elseif closed then
    problem = 'LOCKCLOSED no more permits are granted'
  end
  if problem then
    -- The claim is granted nothing, and must not hold up claims that there is room for.
    if leave(name) then
      serve()
    end
    return failed(problem)
  elseif closed == nil then
    limit = limit or tonumber(of)
    remember_permits(of, limit, false, lease)
  end
elseif value and fits(mode) then
  -- A claim of the group that holds the lock needs no place in the queue.
  leave(name)
  local range, problem = grant(name, lease, ARGV[3], inbox)
  return range and granted(range, lease) or failed(problem)
end

-- The time in ms until there are enough permits, if nothing else is missing. Time never brings more
-- permits than there are.
local function room_in()
  if not take or value and not is_shared_in(mode) then
    return nil
  elseif take > limit then
    return -1
  elseif not value then
    return nil
  end
  local left
  local missing = take + taken_permits() - limit
  local first = call('ZRANGE', KEYS[5], 0, BOUND - 1, 'WITHSCORES')
  for index = 1, #first, 2 do
    missing = missing - permits(mode_of(first[index]))
    left = math.max(1, first[index + 1] - now)
    if missing <= 0 then
      break
    end
  end
  return left
end

