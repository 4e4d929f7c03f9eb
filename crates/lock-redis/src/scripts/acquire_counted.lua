-- What concerns those who hold the lock as a group, or want permits.

local take, of = permits(mode)
local limit
if take then
  local declared, closed
  declared, limit, closed = known_permits()
  local problem
  if declared and declared ~= of then
    problem = 'LOCKPERMITS ' .. of .. ' permits were declared, but there is a semaphore of ' .. declared
  elseif closed then
    problem = 'LOCKCLOSED no more permits are granted'
  end
  if problem then
    -- It is granted nothing, and must not hold up those for whom there is room.
    if leave(name) then
      serve()
    end
    return failed(problem)
  elseif closed == nil then
    limit = limit or tonumber(of)
    remember_permits(of, limit, false, lease)
  end
elseif value and fits(mode) then
  -- Whoever belongs to the group that holds the lock stands in no line.
  leave(name)
  local range, problem = grant(name, lease, ARGV[3], inbox)
  return range and granted(range, lease) or failed(problem)
end

-- When there are enough permits, in ms from now, if they are all that is missing. More than there are
-- do not come with time.
local function room_in()
  if not take or value and value ~= marker(mode) then
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

