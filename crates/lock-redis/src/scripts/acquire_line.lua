-- The queue goes first, even before a claim that there is room for.
local problem
if not from then
  if call('EXISTS', KEYS[3]) == 1 then
    local ask = { name = name, lease = lease, count = ARGV[3], inbox = inbox }
    local ok, crowded, why = pcall(serve, ask)
    if ask.range then
      return granted(ask.range, ask.left)
    elseif not ok then
      error(crowded, 0)
    end
    more, problem = more or crowded, why
    if problem then
      return failed(problem)
    end
  end
  if call('EXISTS', KEYS[3]) == 0 and fits(mode) then
    local range
    range, problem = grant(name, lease, ARGV[3], inbox)
    return range and granted(range, lease) or failed(problem)
  end
end

-- When there may be room, if no holder renews or releases. If there is no holder, the first claim in
-- the queue has to ask.
local left = more and 1 or room_in() or not value and (gap_left() or 1000) or call('PTTL', KEYS[1])
left = not more and kept_back(mode) or left --terms

