-- Who waits, for those who look. Of a long queue only the beginning is looked at.

-- The places that count, in order, and how many there are.
local function in_line()
  local MOST = 1000
  local length = call('LLEN', KEYS[3])
  local names = call('LRANGE', KEYS[3], 0, MOST - 1)
  local line = {}
  for _, name in ipairs(names) do
    local ends, from, _, _, inbox = place_of(name)
    if ends and ends > now and not is_orphan(from) then
      line[#line + 1] = { name = name, left = ends - now, inbox = inbox }
    end
  end
  return line, length > MOST and length or #line
end

