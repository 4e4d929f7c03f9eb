-- Keeps the label of a client.
--
-- KEYS[1]  where it is kept
-- ARGV[1]  the label
-- ARGV[2]  for how long it is kept, in ms

call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
