-- The waiting claims, for inspection. Only the beginning of a long queue is read.

-- The places that count, in order, and their number.
local function in_line()
  local MOST = 1000
  local length = call('LLEN', KEYS[3])
  local names = call('LRANGE', KEYS[3], 0, MOST - 1)
  local line = {}
  for _, name in ipairs(names) do
    local ends, from, _, _, inbox, _, joined = place_of(name)
    if ends and ends > now and not is_orphan(from) then
      line[#line + 1] = { name = name, left = ends - now, inbox = inbox, joined = joined }
    end
  end
  return line, length > MOST and length or #line
end

