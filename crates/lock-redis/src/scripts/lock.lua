-- The server's clock, and the content of the lock.

-- The beginning of 2020, in seconds.
local EPOCH = 1577836800

local time = call('TIME')
-- In microseconds, as a text of 16 digits, and in milliseconds.
local micros = time[1] .. string.sub('00000' .. time[2], -6)
local now = math.floor(micros / 1000)

-- The lock without its mark; nothing if there is no lock. A foreign value may be of any size: only as much
-- is read as shows that it is foreign.
local value
-- Whether the lock has its mark.
local marked
-- What the key still has although the lock has no holder.
local stale

local function read_lock()
  local text = call('GETRANGE', KEYS[1], 0, 33)
  marked = #text == 33 and string.byte(text, 33) == 119
  if marked then
    text = string.sub(text, 1, 32)
  end
  value = (text ~= '' or call('EXISTS', KEYS[1]) == 1) and text or nil
end

local function vacate()
  value, stale = nil, value or stale
end

