-- Gives a lease a new time to live. Never creates one.
--
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives from now on, in ms: at least 1
-- ARGV[3]  how many further token numbers to reserve, at most; or 0
-- ARGV[4]  the channel on which the client hears, if it watches the lock; or empty
-- ARGV[5]  the mode; exclusive if it is left out
--
-- Replies 0 if the owner does not hold the lock in this mode, or else "demand" or "demand first last": `w`
-- if somebody waits in the queue, `q` if nobody does and the client will be told when that changes, `u`
-- otherwise; and the tokens, if there are any.

local value = call('GET', KEYS[1])
local lease, inbox = tonumber(ARGV[2]), ARGV[4]

local function renewed(range, hears)
  local demand = call('EXISTS', KEYS[3]) == 1 and 'w' or hears and 'q' or 'u'
  return range and demand .. ' ' .. range or demand
end

-- Tokens that a lease can do without.
local function further(inbox)
  if ARGV[3] == '0' then
    return nil
  end
  local ok, range = pcall(reserve, ARGV[3], lease, inbox, true)
  return ok and range or nil
end

if (ARGV[5] or 'x') == 'x' then
  if value ~= ARGV[1] then
    return 0
  end
  -- Not refused for want of memory, and then nor is what follows.
  call('PEXPIRE', KEYS[1], lease)
  local range = further(inbox)
  if range or inbox == '' then
    return renewed(range, inbox ~= '')
  end
  local known, before = string.match(call('GET', KEYS[2]) or '', '^(%d+ %d+%+?%d*) ?(.*)$')
  local hears = known and before == inbox
  local keep = call('PTTL', KEYS[2])
  if known and (not hears or keep < lease) then
    local rest = math.max(keep, lease + 3600000)
    hears = not redis.pcall('SET', KEYS[2], known .. ' ' .. inbox, 'PX', rest).err
  end
  return renewed(nil, hears)
end

