-- The record of a server that may have forgotten leases, and what has to happen before it grants leases again.

-- The record at this key, and its parts, of which it has one or more if its form is known.
local function read_record(key, form)
  local text = call('GET', key)
  return text, string.match(text or '', form)
end

-- Writes the record of these parts, unless it is this text already.
local function write_record(key, before, form, ...)
  local text = string.format(form, ...)
  if text ~= before then
    call('SET', key, text)
  end
  return text
end

-- The time, in ms by this server's clock.
local function present_time()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000), time
end

-- Since when the server sits out. If its clock was set back, from now on.
local function since(begun, now)
  return begun and math.min(begun, now)
end

-- A number of ms in digits, or `-`.
local function shown(ms)
  return ms and string.format('%.0f', ms) or '-'
end

