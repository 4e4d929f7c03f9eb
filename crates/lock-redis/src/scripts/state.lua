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
-- Where grants name their term, the first field is `t`, or `r` if the lock was released since, with the term and how
-- long, in ms, the leases live that were granted under it; and `q` says at which ms which other term was first seen.
--
-- Later versions of the format begin with `v`. A script that finds one changes nothing.

-- The last argument of every script with this part: how long the state of a lock outlives its lease, in ms; and, if
-- foreign clients are to get a turn, after how many hand-overs, and for how many ms, the lock is left to them.
local retention, turns, gap = table.remove(ARGV)
if string.find(retention, ' ', 1, true) then
  retention, turns, gap = string.match(retention, '^(%d+) (%d+) (%d+)$')
  turns, gap = tonumber(turns), tonumber(gap)
end
retention = tonumber(retention)

-- The clock of a state without a grant, and the owner of a state without one.
local NONE = '0000000000000000'

local state = { owner = NONE }

-- The values of the fields.
local function read_fields(fields)
  state.inbox = string.match(fields, ' i(%x+)')
  state.listens = string.find(fields, ' l', 1, true) and true
  state.granted = tonumber(string.match(fields, ' g(%d+)') or nil)
  state.handed = tonumber(string.match(fields, ' h(%d+)') or nil)
  state.left_until = tonumber(string.match(fields, ' f(%d+)') or nil)
  --<terms
  local letter, term, lease = string.match(fields, ' ([tr])(%x+)%.(%d+)')
  if letter then
    state.term, state.lease, state.is_released = term, tonumber(lease), letter == 'r'
    local since, seen = string.match(fields, ' q(%d+)%.(%x+)')
    state.since, state.seen = tonumber(since), seen
  end
  --terms>
end

-- A foreign value at this key is left as it is. It prevents grants, but no release.
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
  -- One pattern for the whole state would cost more than the read of the key.
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
  --<terms
  if state.term then
    text = text .. string.format(' %s%s.%.0f', state.is_released and 'r' or 't', state.term, state.lease)
  end
  if state.since then
    text = text .. string.format(' q%.0f.%s', state.since, state.seen)
  end
  --terms>
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
  state.is_changed = false --terms
end

--<terms
-- The term of this server: how the name of the history of its data begins, 16 digits. Nothing if this user may not know.
local known_term
local function present_term()
  if known_term == nil then
    local told = redis.pcall('INFO', 'replication')
    local history = type(told) == 'string' and string.match(told, 'master_replid:(%x+)')
    known_term = history and #history >= 16 and string.sub(history, 1, 16) or false
  end
  return known_term or nil
end

-- For how many ms a lease of another term may live that this server does not know, or knew as a shorter one: the lock
-- was held under that term and not seen released. That is the lease and the drift, from the first look under the
-- present term on, by this server's clock. Nothing if there is no such lease.
local function left_of_other_terms()
  local term = state.term and not state.is_released and present_term()
  if not term or state.term == term then
    return nil
  end
  if state.seen ~= term or now < state.since then
    state.since, state.seen, state.is_changed = now, term, true
  end
  local left = state.since + math.ceil(state.lease * 1.01) + 2 - now
  return left > 0 and left or nil
end

-- Notes that a lease of so many ms begins now, granted or renewed. Returns the reason if it cannot be granted.
local function note_lease(lease)
  local term = present_term()
  if not term then
    return 'LOCKTERM the user may not run INFO'
  end
  -- Besides this lease, others may live: of another term, or of this one.
  local is_mixed = left_of_other_terms()
  local is_beside = value and state.term and not state.is_released
  local most = (is_mixed or is_beside) and math.max(state.lease, lease) or lease
  if not is_mixed and (state.term ~= term or state.is_released or state.since) then
    state.term, state.is_released, state.since, state.seen, state.is_changed = term, false, nil, nil, true
  end
  if state.lease ~= most then
    state.lease, state.is_changed = most, true
  end
end

-- Notes that no lease on the lock lives any more.
local function note_release()
  if state.term and not state.is_released then
    state.is_released, state.is_changed = true, true
  end
end
--terms>

-- For how many ms the free lock is left to foreign clients; nothing if it is not.
local function gap_left()
  local left = not value and state.left_until and state.left_until - now
  return left and left > 0 and left or nil
end

-- Whether claims have handed the lock on often enough for a gap.
local function is_gap_due()
  return turns and (state.handed or 0) >= turns
end

-- How long to keep the state beside a lease of so many ms.
local function keep_beside(lease)
  return math.max(call('PTTL', KEYS[2]), lease + retention)
end

-- Whether the owner of the latest grant, and so a client of this library, holds the lock alone.
local function is_ours()
  return value and #value == 32 and string.sub(value, 1, 16) == state.owner
end

-- The highest token of the grant, for a request that is repeated.
local function own_token()
  return is_ours() and (state.granted or state.latest)
end

-- Whether a foreign client holds the lock.
local function is_foreign()
  return value and string.byte(value) ~= 42 and not is_ours()
end

-- Marks the lock: its release has more to do than to delete it.
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
    stale = nil
    --<terms
    -- Of leases of another term, some may have ended here too early.
    if state.term and not state.is_released and state.term == present_term() then
      note_release()
    end
    --terms>
  end
  local waits = call('EXISTS', KEYS[3]) == 1
  local is_wanted = waits or state.listens or false
  if is_wanted then
    mark()
  end
  if is_wanted ~= (state.is_flagged or false) or state.is_changed then
    state.is_flagged = is_wanted
    if is_wanted or state.latest then
      local least = retention
      least = least + (state.since and 2 * state.lease or 0) --terms
      write_state(math.max(call('PTTL', KEYS[2]), call('PTTL', KEYS[3]), least))
    elseif not state.problem then
      call('DEL', KEYS[2])
    end
  end
  return waits
end

-- Reserves this many consecutive token numbers, or fewer, for a lease of this owner, of this many ms. The owner's
-- client hears on the inbox, if that is not empty. Returns "first last", or nothing and the reason. If the lease is
-- held already, it has tokens, and these are additional ones.
--
-- Numbers are the server's clock. So they increase even if the state was forgotten, and doubles hold them exactly
-- until 2091. For that, no number may be ahead of the clock: the next grant would begin below it. A range ends now,
-- and reaches back over the time since the latest grant. If there is no such time, for example after the clock was set
-- back, a single number is taken ahead of the clock; or none, if the lease already has tokens.
local function reserve(count, lease, owner, inbox, is_held)
  if state.problem then
    return nil, state.problem
  elseif tonumber(time[1]) < EPOCH then
    return nil, 'LOCKCLOCK the clock of the server is before 2020: ' .. time[1]
  end
  --<terms
  local problem = note_lease(lease)
  if problem then
    return nil, problem
  end
  --terms>
  local last = (time[1] - EPOCH) * 4000000 + time[2] * 4
  -- Much longer than the lease.
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

