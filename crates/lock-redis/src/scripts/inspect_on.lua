-- A mode without its secret, which only its holders know, and without the declared number, which
-- all clients know.
local function kind_of(name)
  local mode = mode_of(name)
  return string.match(mode, '^p%d+') or string.sub(mode, 1, 1)
end

-- The mark of the client of a claim, by its name or its owner. A foreign value of the lock may be any text.
local function client_of(text)
  local owner = string.match(text, '%x+$') or ''
  return #owner == 32 and string.sub(owner, -10) or '-'
end

local MOST = 1000
local holders, holding = {}, 0
if is_shared() then
  local names = call('ZRANGEBYSCORE', KEYS[5], '(' .. string.format('%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, MOST)
  for index = 1, #names, 2 do
    local first = string.match(call('HGET', KEYS[6], names[index]) or '', '^%d+') or '-'
    holders[#holders + 1] = string.format('%s %s %.0f %s', kind_of(names[index]), first, names[index + 1] - now, client_of(names[index]))
  end
  holding = #holders == MOST and call('ZCARD', KEYS[5]) or #holders
elseif value then
  -- A foreign client wrote a value that the state does not name.
  local token = own_token()
  token = token and string.format('%.0f', token) or '-'
  holders[1] = string.format('x %s %.0f %s', token, call('PTTL', KEYS[1]), client_of(value))
  holding = 1
end

local line, waiting = in_line()
local waiters = {}
for index, place in ipairs(line) do
  local waited = place.joined and string.format('%.0f', math.max(now - place.joined, 0)) or '-'
  waiters[index] = string.format('%s %.0f %s %s', kind_of(place.name), place.left, waited, client_of(place.name))
end
return { holders, holding, waiters, waiting }
