if left < tonumber(ARGV[2]) then
  left = ARGV[2]
  call('PEXPIRE', KEYS[1], left)
  call('PEXPIRE', KEYS[2], ARGV[3])
end
return ARGV[5] .. string.format(' r %.0f ', left) .. before
