local run, history, earlier = present_histories()
if not run then
  return redis.error_reply(history)
end
local text = call('GET', KEYS[1])
local known, before, most, begun = string.match(text or '', '^(%x+) (%x+) (%d+) ([%d-]+)$')
if text and not known then
  return redis.error_reply('LOCKDATA the key of the record of its data holds something else')
end

-- Whether the data of this run came from a primary. A server that starts as a primary takes the history from its file for
-- the one before, but receives nothing. Before version 7 it does neither.
local function is_replicated()
  local bytes = string.match(call('INFO', 'stats'), 'total_net_repl_input_bytes:(%d+)')
  return not bytes or tonumber(bytes) > 0
end

-- Whether the data is what became of the data with this record. A primary without a replica forgets the history before,
-- and may name its history anew.
local function goes_on()
  if known == run then
    return history == before or earlier == before or not string.find(earlier, '[^0]')
  end
  return earlier == before and is_replicated()
end

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local is_same_clock = known == run and begun ~= '-' and now >= tonumber(begun)
most, begun = math.max(ARGV[1], most or 0), tonumber(begun)
if ARGV[2] == 'i' then
  begun = nil
elseif not known or not goes_on() or begun and not is_same_clock then
  begun = now
end
local left = begun and begun + most - now or 0
if left <= 0 then
  begun = nil
end
local record = string.format('%s %s %.0f %s', run, history, most, begun and string.format('%.0f', begun) or '-')
if record ~= text then
  call('SET', KEYS[1], record)
end
return math.max(left, 0)
