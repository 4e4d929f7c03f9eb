end

-- The value is written. So an error is not the answer, and the full script has to release the lock. The server may refuse
-- a command to this user.
local is_released, reply = pcall(release)
return is_released and reply or number .. ' ?'
