-- The record of the number of permits.

-- The refusal of a number that was not declared before.
local function other_number(declared, of)
  local last = string.match(declared, '%d+') or declared
  return 'LOCKPERMITS ' .. of .. ' permits were declared, but there is a semaphore of ' .. last
end

-- The numbers that were declared, with this one as the last. The list begins with the last one, and has 8 at most.
local function declared_anew(declared, of)
  local numbers = { of }
  for number in string.gmatch(declared, '%d+') do
    if number ~= of and #numbers < 8 then
      numbers[#numbers + 1] = number
    end
  end
  return table.concat(numbers, ',')
end

-- Writes the record. An unchanged number may be forgotten an hour after the last lease.
local function remember_permits(declared, limit, closed, lease)
  local record = string.format('%s %.0f %s', declared, limit, closed and 'closed' or 'open')
  if closed or limit ~= tonumber(string.match(declared, '%d+')) then
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
