-- Most locks are free when a client asks for them, and then this is all. The lock is written first: without
-- memory, or without a right, this write fails. The state is written and read in one call, which costs less than two.
if call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
