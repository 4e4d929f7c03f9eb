-- The state of a lock, and its tokens.
--
-- The state is what the latest grant leaves behind: "w1795000000000000-0123456789abcdef fields".
--
--   w          only while claims may wait or clients may listen. A letter sorts above every digit, so one
--              comparison with the clock tells a quick script that there is more to do
--   16 digits  the server's clock at the grant, in microseconds; or zeros, if there was none
--   -          the highest token number that was given out is four times that, counted from 2020; or a
--              digit, by which it is lower
--   16 digits  in hexadecimal: how the token of the latest owner begins
--   fields     each a space, a letter and a value without spaces: `i` the inbox of the holder; `l` clients
--              listen; `g` the highest token of the grant itself, if its holder has reserved more since; `h`
--              how often the lock was handed over since it was free, and `f` until when, in ms, it is left to
--              clients of other kinds. A script leaves out fields that it does not know
--
-- Later versions of the format begin with `v`. A script that finds one changes nothing.

-- How long the state of a lock outlives its lease, in ms; and, if clients of other kinds are to have their turn, after
-- how many hand-overs, and for how many ms, the lock is left to them: the last argument of every script with this
-- part.
local retention, turns, gap = table.remove(ARGV)
if string.find(retention, ' ', 1, true) then
  retention, turns, gap = string.match(retention, '^(%d+) (%d+) (%d+)$')
  turns, gap = tonumber(turns), tonumber(gap)
end
retention = tonumber(retention)

-- A clock that says nothing, and an owner that there is none of.
local NONE = '0000000000000000'

local state = { owner = NONE }

-- What the fields say.
local function read_fields(fields)
  state.inbox = string.match(fields, ' i(%x+)')
  state.listens = string.find(fields, ' l', 1, true) and true
  state.granted = tonumber(string.match(fields, ' g(%d+)') or nil)
  state.handed = tonumber(string.match(fields, ' h(%d+)') or nil)
  state.left_until = tonumber(string.match(fields, ' f(%d+)') or nil)
end

-- What the key holds instead of a state is left as it is, and prevents grants, but no release.
local function read_state()
  local text = redis.pcall('GET', KEYS[2])
  state = { owner = NONE }
  if not text then
    return
  elseif text.err then
    state.problem = text.err
    return
  end
  local at = string.byte(text) == 119 and 1 or 0
  local clock, sign = string.sub(text, at + 1, at + 16), string.sub(text, at + 17, at + 17)
  local owner = string.sub(text, at + 18, at + 33)
  -- One pattern for the whole would cost more than to read the key.
  if #owner == 16 and not string.find(clock, '%D') and string.find(sign, '[-123]') and not string.find(owner, '%X') then
    state.is_flagged, state.owner = at == 1, owner
    if #text > at + 33 then
      read_fields(string.sub(text, at + 34))
    end
    if clock ~= NONE then
      state.latest = (clock - EPOCH * 1000000) * 4 - (tonumber(sign) or 0)
    end
  elseif string.byte(text) == 118 then
    error({ err = 'LOCKVERSION the lock is stored in a format of another version' })
  else
    state.problem = 'LOCKFENCE the state key holds something else'
  end
end

-- Writes the state, to be kept for so many ms.
local function write_state(keep)
  if state.problem then
    return
  end
  local clock, below = NONE, 0
  if state.latest then
    local quarter = math.ceil(state.latest / 4)
    clock = string.format('%.0f', quarter + EPOCH * 1000000)
    below = quarter * 4 - state.latest
  end
  local text = (state.is_flagged and 'w' or '') .. clock .. (below == 0 and '-' or below) .. state.owner
  if state.inbox then
    text = text .. ' i' .. state.inbox
  end
  if state.listens then
    text = text .. ' l'
  end
  if state.granted then
    text = text .. string.format(' g%.0f', state.granted)
  end
  if state.handed then
    text = text .. string.format(' h%.0f', state.handed)
  end
  if state.left_until then
    text = text .. string.format(' f%.0f', state.left_until)
  end
  call('SET', KEYS[2], text, 'PX', string.format('%.0f', keep))
end

-- For how many ms the lock, which is free, is left to clients of other kinds; nothing if it is not.
local function gap_left()
  local left = not value and state.left_until and state.left_until - now
  return left and left > 0 and left or nil
end

-- Whether the clients of this library have handed the lock on often enough.
local function is_gap_due()
  return turns and (state.handed or 0) >= turns
end

-- How long to keep the state beside a lease of so many ms.
local function keep_beside(lease)
  return math.max(call('PTTL', KEYS[2]), lease + retention)
end

-- Whether the lock is held alone by the owner of the latest grant, and so by a client of ours.
local function is_ours()
  return value and #value == 32 and string.sub(value, 1, 16) == state.owner
end

-- The highest token of the grant, which a request that is repeated gets again.
local function own_token()
  return is_ours() and (state.granted or state.latest)
end

-- Whether a client of another kind holds the lock.
local function is_foreign()
  return value and string.byte(value) ~= 42 and not is_ours()
end

-- Has the release of the lock do more than delete it.
local function mark()
  if not marked and is_ours() then
    call('SETRANGE', KEYS[1], 32, 'w')
    marked = true
  end
end

-- Deletes the lock if it was vacated for good. Then brings mark and flag in line with the queue. Returns whether
-- claims wait.
local function settle()
  if stale then
    call('DEL', KEYS[1])
    stale = false
  end
  local waits = call('EXISTS', KEYS[3]) == 1
  local is_wanted = waits or state.listens or false
  if is_wanted then
    mark()
  end
  if is_wanted ~= (state.is_flagged or false) then
    state.is_flagged = is_wanted
    if is_wanted or state.latest then
      write_state(math.max(call('PTTL', KEYS[2]), call('PTTL', KEYS[3]), retention))
    elseif not state.problem then
      call('DEL', KEYS[2])
    end
  end
  return waits
end

-- Reserves so many consecutive token numbers, or fewer, for a lease of this owner of so many ms, which hears
-- on that inbox if it is not empty. Returns "first last", or else nothing and why. If the lease is held
-- already, it has tokens, and these are further ones.
--
-- Numbers are the server's clock, so that they grow although the state was forgotten, and doubles hold
-- them exactly until 2091. For that, none may lead the clock: the grant after would begin below it. A range
-- ends now, and reaches back over the time that has gone by since the latest grant. Only where none has, as
-- after the clock was set back, a single number is taken ahead of it; or none, if the lease has some.
local function reserve(count, lease, owner, inbox, is_held)
  if state.problem then
    return nil, state.problem
  elseif tonumber(time[1]) < EPOCH then
    return nil, 'LOCKCLOCK the clock of the server is before 2020: ' .. time[1]
  end
  local last = (time[1] - EPOCH) * 4000000 + time[2] * 4
  -- Well beyond the lease.
  local first, keep = last, lease + retention
  if state.latest then
    local before = math.max(state.latest, last - math.min(count, 40000))
    local ahead = before + 1 - last
    first = before + 1
    if ahead > 0 then
      if is_held then
        return nil, 'the clock has to catch up'
      elseif before >= 9007199254740991 then
        return nil, 'LOCKFENCE the token numbers have run out'
      end
      last = first
      -- The clock has to catch up before the state may be forgotten.
      keep = keep + math.ceil(ahead / 4000)
    end
  end
  if not is_held then
    state.handed = turns and (value or stale) and (state.handed or 0) + 1 or nil
    state.left_until = nil
  end
  state.granted = is_held and is_ours() and (state.granted or state.latest) or nil
  state.latest, state.owner = last, string.sub(owner, 1, 16)
  state.inbox = inbox ~= '' and inbox or nil
  write_state(keep)
  return string.format('%.0f %.0f', first, last)
end

