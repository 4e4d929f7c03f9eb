-- Ends a lease, or gives up a place in the queue, and serves who comes next.
--
-- ARGV[1]  the owner's token
-- ARGV[2]  the channel to tell that the lock is free, or empty if nobody is to be told
-- ARGV[3]  the mode; exclusive if it is left out
-- ARGV[4]  the token of an owner that wants the lock next, if there is one, and if somebody else waits;
--          of a reader, the channel to tell that nobody is left but one who can be upgraded, if ARGV[2]
--          is empty
-- ARGV[5]  "limit place claim" for that owner's place in the queue, as when it acquires
-- ARGV[6]  how many token numbers it wants
-- ARGV[7]  the channel on which its client hears
--
-- Replies -1 if the owner does not hold the lock in this mode, or else how many clients were told that
-- it is free: none if somebody was served, or still holds it. Or "q left micros", as when it acquires,
-- if the lock was released and the owner that wants it next has a place in the queue.

local value = call('GET', KEYS[1])

-- A message that may not be sent must not undo the release.
local function tell()
  if ARGV[2] == '' then
    return 0
  end
  return tonumber(redis.pcall('PUBLISH', ARGV[2], 'released')) or 0
end

-- Most locks are wanted by nobody when they are released. This is all that happens then.
if (ARGV[3] or 'x') == 'x' and call('EXISTS', KEYS[3]) == 0 then
  if value ~= ARGV[1] then
    return -1
  end
  call('DEL', KEYS[1])
  return tell()
end

