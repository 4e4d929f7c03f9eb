-- The server votes only with the record that the ballot expects. That this run made the record is looked at now and
-- then: INFO costs more than all the rest of a vote.
if record then
  local expected, look = ARGV[6], ARGV[7]
  if call('GET', record) ~= expected or look == 'i' and present_run() ~= string.match(expected, '^%S+') then
    return 'a'
  end
  -- The parts that follow would take these for a place in the queue.
  ARGV[6], ARGV[7] = nil, nil
end

