-- Publishes a message on an inbox. Returns how many clients heard it, or nothing if this user may not publish.
--
-- If the inbox has more than 16 digits, the first ones are the tag of a slot, and the client also listens to a channel in
-- that slot: a message there costs the other servers nothing. If no client hears there, the message goes to the own inbox,
-- by which a client is known at every server.
local function publish(inbox, text)
  local channel = string.match(KEYS[2], '^[^{]*') .. 'inbox:'
  inbox = inbox or ''
  if #inbox > 16 then
    local tag = string.sub(inbox, 1, -17)
    inbox = string.sub(inbox, -16)
    local heard = #tag < 8 and tonumber(redis.pcall('SPUBLISH', channel .. '{' .. tag .. '}' .. inbox, text))
    if heard and heard > 0 then
      return heard
    end
  end
  return tonumber(redis.pcall('PUBLISH', channel .. inbox, text))
end
