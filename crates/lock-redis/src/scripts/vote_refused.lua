local function refused(left, owner)
  local tag = owner and #owner == 32 and string.match(owner, '^(%x%x%x%x%x%x%x%x)%x+$')
  return string.format('b %.0f', left) .. (tag and ' ' .. tag or '')
end

