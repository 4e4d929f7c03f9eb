-- The record of the number of permits.

-- Writes the record. An unchanged number may be forgotten an hour after the last lease.
local function remember_permits(declared, limit, closed, lease)
  local record = string.format('%s %.0f %s', declared, limit, closed and 'closed' or 'open')
  if closed or limit ~= tonumber(declared) then
    call('SET', KEYS[7], record)
  else
    call('SET', KEYS[7], record, 'PX', math.max(call('PTTL', KEYS[7]), lease + 3600000))
  end
  known_limit = record
end

-- Keeps the record for a lease of this many ms and an hour more, unless the record has no end.
local function use_permits(lease)
  local rest = call('PTTL', KEYS[7])
  if rest >= 0 and rest < lease + 3600000 then
    call('PEXPIRE', KEYS[7], lease + 3600000)
  end
end
