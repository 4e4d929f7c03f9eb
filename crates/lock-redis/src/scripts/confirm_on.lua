local mode = ARGV[3] or 'x'
local held
if mode == 'x' then
  held = value == ARGV[1]
else
  held = shared_until(mode .. ':' .. ARGV[1])
end
local token = tonumber(ARGV[2])
if not held or not state.latest or state.latest > token then
  return 0
elseif state.latest < token then
  local ahead = math.ceil(token / 4000 - (now - EPOCH * 1000))
  local keep = call('PTTL', KEYS[1]) + retention + math.max(0, ahead)
  state.granted = own_token() or nil
  state.latest = token
  write_state(math.max(call('PTTL', KEYS[2]), keep))
end
return 1
