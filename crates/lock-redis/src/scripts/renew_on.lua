local mode, lease, inbox = ARGV[5] or 'x', tonumber(ARGV[2]), ARGV[4]

-- The reply to a renewal that would shorten a lease with this end, unless the renewal names that end. Two readings of one
-- end differ by the time between two readings of the clock.
local function surprised(ends)
  local known = tonumber(ARGV[6])
  return ends - now > lease and not (known and ends <= known + 2) and string.format('l %.0f', ends)
end

local function renewed(range, hears)
  local demand = settle() and 'w' or hears and 'q' or 'u'
  return range and demand .. ' ' .. range or demand
end

-- More tokens, which a lease can do without.
local function further(inbox)
  if ARGV[3] == '0' then
    return nil
  end
  local ok, range = pcall(reserve, ARGV[3], lease, ARGV[1], inbox, true)
  return ok and range or nil
end

if mode == 'x' then
  if value ~= ARGV[1] then
    return 0
  end
  local surprise = surprised(now + call('PTTL', KEYS[1]))
  if surprise then
    return surprise
  end
  -- This write is not refused for want of memory, and neither are the writes after it.
  call('PEXPIRE', KEYS[1], lease)
  local range = further(inbox)
  if not range then
    note_lease(lease) --terms
    state.owner, state.inbox = string.sub(ARGV[1], 1, 16), inbox ~= '' and inbox or state.inbox
    write_state(keep_beside(lease))
  end
  return renewed(range, inbox ~= '')
end

local name = mode .. ':' .. ARGV[1]
local ends = shared_until(name)
if not ends then
  return 0
end
local surprise = surprised(ends)
if surprise then
  return surprise
end
local range, before = string.match(call('HGET', KEYS[6], name) or '', '^(%d+ %d+) ?(.*)$')
if not range then
  return 0
end
local hears = inbox ~= '' and inbox or before
share(name, lease, hears == '' and range or range .. ' ' .. hears)
-- All members of a group share their tokens.
local fresh = not is_joint() and further('')
if KEYS[7] then
  use_permits(lease)
end
return renewed(fresh, inbox ~= '')
